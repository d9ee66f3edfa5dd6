"""`ray-webhook completion`: the completion script of a shell for commands and flags."""

import argparse
import sys
from importlib import import_module

import shtab


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        '  eval "$(ray-webhook completion bash)"    in ~/.bashrc\n'
        "  ray-webhook completion zsh > ~/.zfunc/_ray-webhook\n\n"
        "exit status: 0"
    )
    parser.add_argument(
        "shell", choices=shtab.SUPPORTED_SHELLS, help="the shell that is to complete"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the script, from the parsers of all commands."""
    main = import_module("webhook.cli.main")  # avoids an import cycle
    parser, _ = main.parser_of("ray-webhook", main.COMMANDS)
    sys.stdout.write(shtab.complete(parser, shell=arguments.shell))
    return 0
