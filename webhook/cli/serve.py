"""`ray-webhook serve`: the webhook service."""

import argparse
import sys
from collections.abc import Sequence

import uvloop

from webhook.app.serve import build
from webhook.certs.certificate_error import CertificateError
from webhook.cli.files import read_manifests
from webhook.cli.parsing import refuse
from webhook.cli.process import announce, live
from webhook.config.configuration import Settings
from webhook.config.sources import WrongSettingsError, add_flags, read_settings
from webhook.kubeclient.errors import ConfigurationError
from webhook.logging.log import DescriptorOutput
from webhook.manifest.manifest_error import ManifestError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    describe(parser)
    add_flags("serve", parser)


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the help text of the command, without the flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "examples:\n"
        "  ray-webhook serve --config settings.yaml\n"
        "  ray-webhook serve --standalone --state examples --tls.cert-dir certs\n\n"
        "Every setting can be a flag, a variable such as RAY_WEBHOOK_LOG__FORMAT, or stand in a "
        "file: docs/settings.md.\n\n"
        "exit status: 0 ended by a signal, 1 a part of the service failed, 2 it cannot start"
    )


def run(arguments: Sequence[str], parser: argparse.ArgumentParser) -> int:
    """Serve until a signal; return 0 then, 2 if the start failed, 1 if a part failed."""
    try:
        describe(parser)
        settings = read_settings(arguments, "serve", parser)
    except WrongSettingsError as error:
        return refuse("serve", f"{error}\nsee `ray-webhook serve --help` for every setting")
    if settings.state and not settings.standalone:
        return refuse(
            "serve",
            "setting state needs standalone: with a live cluster, pods and RayClusters are watched",
        )
    try:
        service = build(
            settings, DescriptorOutput(sys.stdout.fileno()), read_manifests(settings.state)
        )
        port, admin = service.bind()
    except (CertificateError, ConfigurationError, ManifestError) as error:
        return refuse("serve", str(error))
    except OSError as error:
        ports_wanted = f"{settings.serving.port} or {settings.listen.admin_port}"
        return refuse(
            "serve",
            f"cannot listen on port {ports_wanted} of {settings.listen.host}: {error.strerror}; "
            "choose others",
        )
    announce(_addresses(settings, port, admin), "serve", settings.log.format)
    return uvloop.run(live(service, "listening for reviews"))


def _addresses(settings: Settings, port: int, admin: int) -> str:
    """Return the addresses of reviews and probes."""
    # Only compared
    host = "127.0.0.1" if settings.listen.host in {"0.0.0.0", "::"} else settings.listen.host  # noqa: S104
    state = "is ready" if settings.standalone else "listens"
    return (
        f"ray-webhook {state}: https://{host}:{port}/mutate, and http://{host}:{admin}/readyz for "
        "its readiness"
    )
