"""`ray-webhook settings`: check settings before they are installed, and print their schema."""

import argparse
import json
import sys

from webhook.api.failures import InputError
from webhook.config.configuration import schema
from webhook.config.sources import read_settings
from webhook.manifest.yaml_values import ManifestError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  ray-webhook settings check settings.yaml\n"
        "  ray-webhook settings schema > settings.schema.json\n\n"
        "exit status: 0 they can be used, 2 they cannot"
    )
    commands = parser.add_subparsers(dest="what", required=True, metavar="check | schema")
    check = commands.add_parser(
        "check",
        help="check whether files can be used as settings, with the variables that are set here",
    )
    check.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="a file with settings; without one, the variables alone",
    )
    schema = commands.add_parser("schema", help="print the JSON Schema of a file with settings")
    for sub in (check, schema):
        sub.epilog = "exit status: 0 they can be used, 2 they cannot"


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if all settings are valid, 2 if the service would not start with them."""
    if arguments.what == "schema":
        sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
        return 0
    return max([_check(file) for file in arguments.files or [""]])


def _check(file: str) -> int:
    checked = file or "environment"
    try:
        read_settings(["--config", file] if file else [])
    except InputError as error:
        source = "" if isinstance(error, ManifestError) else f"{checked}: "  # has the file's name
        sys.stderr.writelines(f"{source}{line}\n" for line in str(error).splitlines())
        return 2
    sys.stdout.write(f"{checked}: these settings can be used\n")
    return 0
