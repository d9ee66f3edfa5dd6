"""`ray-webhook controller`: the process that writes to the cluster."""

import sys
from collections.abc import Sequence

import uvloop

from webhook.cli.process import run
from webhook.follow.errors import ConfigurationError
from webhook.settings import WrongSettingsError, read_settings
from webhook.telemetry.stdout import DescriptorOutput
from webhook.wiring.controller import build


def controller(arguments: Sequence[str]) -> int:
    """Work until a signal; return 0 then, 2 when the start is not possible, 1 when a part of the process failed."""
    try:
        settings = read_settings(arguments, "controller")
    except WrongSettingsError as error:
        return _refuse(f"{error}\nsee `ray-webhook controller --help` for every setting")
    if settings.standalone:
        return _refuse("setting standalone is for `ray-webhook serve`: without a cluster there is nothing to write to")
    if not settings.scheduling.publish:
        return _refuse(
            "setting scheduling.publish is false, so there is nothing to keep: set it to true here and for "
            "`ray-webhook serve`, or do not run this process"
        )
    own = settings.controller
    try:
        process = build(settings, DescriptorOutput(sys.stdout.fileno()))
        port = process.admin.bind()
    except ConfigurationError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"cannot listen on port {own.port} of {own.host}: {error.strerror}; set another controller.port")
    host = "127.0.0.1" if own.host in {"0.0.0.0", "::"} else own.host  # noqa: S104 - only compared
    sys.stderr.write(f"ray-webhook controller: http://{host}:{port}/readyz says when it is ready\n")
    sys.stderr.flush()
    return uvloop.run(run(process, "following the cluster"))


def _refuse(message: str) -> int:
    sys.stderr.write(f"ray-webhook controller: {message}\n")
    return 2
