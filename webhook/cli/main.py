"""`ray-webhook`: the parser of all commands."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from webhook import __version__

# Command -> what it is for. Each is a module beside this one, imported only when its command runs.
COMMANDS: Final = {
    "serve": "answer admission reviews over HTTPS",
    "controller": "keep what the cluster needs for RayClusters, such as PodGroups",
    "validate": "check RayClusters, RayJobs, RayServices and RayCronJobs in files",
    "mutate": "show what the pods of a RayCluster, or one pod, would receive",
    "settings": "check settings before they are installed, and print their schema",
    "certs": "issue and inspect certificates",
}

_PROCESSES: Final = ("serve", "controller")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 the object was refused, 2 unusable input."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = words[0] if words and words[0] in COMMANDS else None
    if command in _PROCESSES:  # its flags are the settings', so its parser is theirs
        return int(getattr(import_module(f"webhook.cli.{command}"), command)(words[1:]))
    parser = argparse.ArgumentParser(prog="ray-webhook", description="Seats, completes and checks Ray pods on Kubernetes.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=text.capitalize() + ".")
        if name == command:
            import_module(f"webhook.cli.{name}").add_arguments(sub)
    parsed = parser.parse_args(words)
    try:
        return int(import_module(f"webhook.cli.{parsed.command}").run(parsed))
    except BrokenPipeError:  # the reader of our output, such as head, has had enough
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
