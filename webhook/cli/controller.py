"""`ray-webhook controller`: the process that writes to the cluster."""

import argparse
import sys
from collections.abc import Sequence

import uvloop

from webhook.app.controller import build
from webhook.cli.parsing import refuse
from webhook.cli.process import announce, live
from webhook.config.sources import WrongSettingsError, add_flags, read_settings
from webhook.kubeclient.errors import ConfigurationError
from webhook.logging.log import DescriptorOutput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    describe(parser)
    add_flags("controller", parser)


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the help text of the command, without the flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "examples:\n"
        "  ray-webhook controller --config settings.yaml\n"
        "  ray-webhook controller --kubeconfig ~/.kube/config --installation.namespace ray-webhook"
        "\n\n"
        "docs/settings.md describes the file and the variables.\n\n"
        "exit status: 0 ended by a signal, 1 a part of the process failed, 2 it cannot start"
    )


def run(arguments: Sequence[str], parser: argparse.ArgumentParser) -> int:
    """Run until a signal; return 0 then, 2 if the start failed, 1 if a part failed."""
    try:
        describe(parser)
        settings = read_settings(arguments, "controller", parser)
    except WrongSettingsError as error:
        return refuse(
            "controller", f"{error}\nsee `ray-webhook controller --help` for every setting"
        )
    if not settings.installation.components:
        return refuse(
            "controller",
            "setting installation.components is empty, so there is nothing to write: name one, for "
            "`ray-webhook serve` too, or do not run this process",
        )
    own = settings.listen
    try:
        process = build(settings, DescriptorOutput(sys.stdout.fileno()))
        (port,) = process.bind()
    except ConfigurationError as error:
        return refuse("controller", str(error))
    except OSError as error:
        return refuse(
            "controller",
            f"cannot listen on port {own.admin_port} of {own.host}: {error.strerror}; set another "
            "listen.adminPort",
        )
    host = "127.0.0.1" if own.host in {"0.0.0.0", "::"} else own.host  # noqa: S104 - only compared
    text = f"ray-webhook controller: http://{host}:{port}/readyz says when it is ready"
    announce(text, "controller", settings.log.format)
    return uvloop.run(live(process, "following the cluster"))
