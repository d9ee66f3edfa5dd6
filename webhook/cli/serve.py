"""`ray-webhook serve`: the service."""

import sys
from collections.abc import Sequence
from typing import TextIO

import uvloop

from webhook.cli.files import read_manifests
from webhook.cli.process import run
from webhook.follow.errors import ConfigurationError
from webhook.manifest.errors import ManifestError
from webhook.settings import Settings, WrongSettingsError, read_settings
from webhook.telemetry.stdout import DescriptorOutput
from webhook.tls.errors import CertificateError
from webhook.wiring.serve import build


def serve(arguments: Sequence[str]) -> int:
    """Serve until a signal; return 0 then, 2 when the start is not possible, 1 when a part of the service failed."""
    try:
        settings = read_settings(arguments)
    except WrongSettingsError as error:
        return _refuse(f"{error}\nsee `ray-webhook serve --help` for every setting")
    if settings.state and not settings.standalone:
        return _refuse("setting state needs standalone: with a live cluster, pods and RayClusters are watched")
    try:
        service = build(settings, DescriptorOutput(sys.stdout.fileno()), read_manifests(settings.state))
        ports = service.reviews.bind(), service.admin.bind()
    except (CertificateError, ConfigurationError, ManifestError) as error:
        return _refuse(str(error))
    except OSError as error:
        ports_wanted = f"{settings.serving.port} or {settings.serving.admin_port}"
        return _refuse(f"cannot listen on port {ports_wanted} of {settings.serving.host}: {error.strerror}; choose others")
    _announce(sys.stderr, settings, *ports)
    return uvloop.run(run(service, "listening for reviews", service.settle))


def _announce(stream: TextIO, settings: Settings, port: int, admin: int) -> None:
    host = "127.0.0.1" if settings.serving.host in {"0.0.0.0", "::"} else settings.serving.host  # noqa: S104 - only compared
    if not settings.standalone:
        stream.write(f"ray-webhook listens: https://{host}:{port}/mutate, and http://{host}:{admin}/readyz says when it is ready\n")
    else:
        stream.write(
            f"ray-webhook is ready: https://{host}:{port}/mutate, and http://{host}:{admin}/readyz\n"
            f"try: curl --cacert {settings.tls.certificate.with_name('ca.crt')} -H 'Content-Type: application/json' "
            f"-d @tests/demo/review.json https://{host}:{port}/mutate\n"
        )
    stream.flush()


def _refuse(message: str) -> int:
    sys.stderr.write(f"ray-webhook serve: {message}\n")
    return 2
