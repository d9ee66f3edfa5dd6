"""`ray-webhook`: the parser of all commands."""

import argparse
import errno
import gc
import os
import sys
import traceback
from collections.abc import Collection, Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Final

from webhook import __version__
from webhook.api.failures import InputError
from webhook.cli.parsing import WRONG, Parser, bug, refuse, unknown

# Command -> summary. Each command is a module of this package, imported only when the command runs.
COMMANDS: Final = {
    "serve": "answer admission reviews over HTTPS",
    "controller": "write events on RayClusters; create PodGroups and more, and repair, if enabled",
    "status": "show the replicas in a cluster, what is wrong with them, and how to fix it",
    "explain": "explain a pod, a rule, a variable, a diagnosis or an annotation",
    "dashboard": "serve a web page with the same content as status, kept up to date",
    "check": "check an installation, or the cluster before one",
    "diff": "compare Ray objects in files with the cluster: fields, findings, pods that restart",
    "validate": "check RayClusters, RayJobs, RayServices and RayCronJobs in files",
    "preview": "show what the pods of a Ray object, or one pod, would receive",
    "settings": "check settings before they are installed, and print their schema",
    "certs": "issue and inspect certificates",
    "completion": "print the completion script of a shell",
}

_PROCESSES: Final = ("serve", "controller")

EXTRAS: Final = {
    **dict.fromkeys(("serve", "controller", "dashboard", "settings", "certs"), "serve"),
    **dict.fromkeys(("status", "explain", "check", "diff"), "cluster"),
    "validate": "cluster",
}
"""The extra that a command requires; for `validate` and `explain`, only to read from a cluster."""

_WORDS: Final = ("help", "version")
"""Words that are read as flags: `help COMMAND` is `COMMAND --help`."""

_FLAGS: Final = ("-h", "--help", "--version")
"""The arguments that need no command."""

INTERRUPTED: Final = 130
"""The exit status after SIGINT, as in shells: 128 plus the number of the signal."""


# One return for each way to end
def main(  # noqa: PLR0911
    arguments: Sequence[str] | None = None, program: str = "ray-webhook"
) -> int:
    """Run a command; return 0 for success, 1 for a denial, 2 for unusable input or a bug."""
    _fill_closed()
    command_line = _conventional(list(sys.argv[1:] if arguments is None else arguments))
    command = command_line[0] if command_line and command_line[0] in COMMANDS else ""
    try:
        if command in _PROCESSES:
            parser = Parser(prog=f"{program} {command}", description=_sentence(COMMANDS[command]))
            return _live(command, command_line[1:], parser)
        return _run(command_line, command, program)
    except ModuleNotFoundError as error:
        if (error.name or "webhook.").startswith("webhook."):
            return _report_bug(command, error)
        extra = "cluster" if error.name == "kubernetes" else EXTRAS.get(command, "serve,cluster")
        message = f"{error.name} is not installed, which this needs: {installing(extra)}"
        return refuse(command, message)
    except InputError as error:
        return refuse(command, str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output, such as head, has exited
        _discard_output()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _report_bug(command, error)
        _discard_output()
        return refuse(command, "the output cannot be written: no space is left on the device")
    except Exception as error:  # noqa: BLE001 - exit status 1 would say that an object was refused
        return _report_bug(command, error)


def installing(extra: str) -> str:
    """Return the command that installs the package with an extra."""
    if Path(__file__).parents[2].joinpath("pyproject.toml").exists():
        return f"pip install '.[{extra}]' in the checkout"
    tool = "pipx install --force" if "pipx" in Path(sys.prefix).parts else "pip install"
    wheel = f"ray_webhook-{__version__}-py3-none-any.whl"
    return f"add the extra {extra} to the wheel: {tool} './{wheel}[{extra}]'"


def plugin() -> int:
    """Run as `kubectl ray-webhook`."""
    return main(program="kubectl ray-webhook")


def parser_of(
    program: str, wanted: Collection[str]
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Return the parser with the arguments of the `wanted` commands, and that of the last."""
    description = "Admission webhook for Ray on Kubernetes, and commands that inspect Ray clusters."
    parser = Parser(prog=program, description=description)
    parser.epilog = (
        f"`{program} help COMMAND` shows arguments, examples and exit status of one command,\n"
        f"and `{program} version` the version. Documentation: README.md and docs/."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    used = parser
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=_sentence(summary))
        if name in wanted:
            used = sub
            # Completion has the arguments of all commands, also where only some extras are
            # installed.
            with suppress(ModuleNotFoundError) if len(wanted) > 1 else nullcontext():
                if name in _PROCESSES:
                    import_module("webhook.cli.process").add_arguments(name, sub)
                else:
                    import_module(f"webhook.cli.{name}").add_arguments(sub)
    return parser, used


def _live(name: str, flags: list[str], parser: Parser) -> int:
    """Run a process, whose flags are parsed with its settings. Garbage collection is off until it
    has started: objects of the start are kept, and repeated collections take a tenth of the start.
    """
    gc.disable()
    try:
        return int(import_module("webhook.cli.process").run(name, flags, parser))
    finally:
        gc.enable()


def _run(words: list[str], command: str, program: str) -> int:
    parser, used = parser_of(program, [command] if command else [])
    if not command and words and words[0] not in _FLAGS:
        parser.print_usage(sys.stderr)
        parser.exit(WRONG, f"{program}: {_wrong_start(words)}\n")
    parsed, rest = parser.parse_known_args(words)
    if rest:
        used.error(f"unrecognized arguments: {' '.join(rest)}")
    status = int(import_module(f"webhook.cli.{parsed.command}").run(parsed))
    # Here and not at exit, where an error of the output could no longer change the exit status.
    sys.stdout.flush()
    return status


def _report_bug(command: str, error: Exception) -> int:
    traceback.print_exception(error)
    return refuse(command, bug(error))


def _conventional(words: list[str]) -> list[str]:
    """Return the words of a command line with `help` and `version` as flags, also with one dash."""
    words = [f"-{word}" if word in ("-help", "-version") else word for word in words]
    if words[:1] == ["help"]:
        return ["--help"] if words[1:2] and words[1] in _WORDS else [*words[1:], "--help"]
    return ["--version"] if words[:1] == ["version"] else words


def _wrong_start(words: list[str]) -> str:
    """Return why words that begin with neither a command nor a flag of all are wrong."""
    first, later = words[0], next((word for word in words if word in COMMANDS), None)
    if not first.startswith("-"):
        return unknown("command", first, [*COMMANDS, *_WORDS])
    if later is not None:
        return f"write arguments such as {first} after the command {later}"
    return unknown("argument", first, _FLAGS)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _fill_closed() -> None:
    """Replace closed standard streams by empty ones. A file that is opened gets the lowest free
    descriptor, which must not be that of a standard stream.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def _discard_output() -> None:
    """Discard the rest of the output, so that the interpreter reports no error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
