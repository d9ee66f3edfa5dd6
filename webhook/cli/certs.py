"""`ray-webhook certs`: issue a certificate for tests, and print the contents of a certificate."""

import argparse
import ipaddress
import sys
from pathlib import Path
from typing import Final

from webhook.api.failures import InputError
from webhook.api.formats import is_dns_label
from webhook.certs.issue import describe_certificates, issue_authority, issue_server
from webhook.cli.parsing import number

_ADVICE: Final = {
    "issue": "give --dir a folder that you may write to",
    "inspect": "give the path of a tls.crt or ca.crt",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  ray-webhook certs issue --dir certs --name webhook.example.com\n"
        "  ray-webhook certs inspect certs/tls.crt\n\n"
        "exit status: 0 done, 2 a file cannot be read or written"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="issue|inspect")
    issue = actions.add_parser("issue", help="write ca.crt, tls.crt and tls.key into a directory")
    issue.add_argument(
        "--dir",
        type=Path,
        required=True,
        help="directory to write to; created if it does not exist",
    )
    issue.add_argument(
        "--name",
        action="append",
        type=_name,
        metavar="NAME",
        help="DNS name or IP address to serve as; may be repeated (default: localhost)",
    )
    days = number("a number of days", 1, 3650)
    issue.add_argument("--days", type=days, default=90, help="validity in days (default: 90)")
    inspect = actions.add_parser(
        "inspect", help="print names, validity and fingerprint of each certificate in a file"
    )
    for sub in (issue, inspect):
        sub.epilog = "exit status: 0 done, 2 a file cannot be read or written"
    inspect.add_argument("file", type=Path, help="certificates in PEM")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    try:
        return _issue(arguments) if arguments.action == "issue" else _inspect(arguments.file)
    except OSError as error:
        if error.filename is None:  # an error of the output, not of a file
            raise
        message = f"{error.filename}: {error.strerror}: {_ADVICE[arguments.action]}"
        raise InputError(message) from None


def _name(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        labels = text.lower().removeprefix("*.").split(".")
        # The maximum length of a DNS name
        if len(text) > 253 or not all(map(is_dns_label, labels)):  # noqa: PLR2004
            msg = f"{text!r} is not a DNS name or IP address"
            raise argparse.ArgumentTypeError(msg) from None
        return text


def _issue(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.dir
    names = arguments.name or ["localhost", "127.0.0.1", "::1"]
    authority = issue_authority("ray-webhook demo CA", arguments.days)
    server = issue_server(authority, names, arguments.days)
    directory.mkdir(parents=True, exist_ok=True)
    key = directory / "tls.key"
    key.touch(mode=0o600)
    key.chmod(0o600)
    key.write_bytes(server.key)
    (directory / "tls.crt").write_bytes(server.certificate)
    (directory / "ca.crt").write_bytes(authority.certificate)
    sys.stdout.write(f"wrote ca.crt, tls.crt and tls.key for {', '.join(names)} to {directory}\n")
    return 0


def _inspect(path: Path) -> int:
    try:
        sys.stdout.write(describe_certificates(path.read_bytes()))
    except ValueError:
        message = f"{path}: no certificate in PEM: {_ADVICE['inspect']}"
        raise InputError(message) from None
    return 0
