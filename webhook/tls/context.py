"""The listener's TLS context, which hands the newest certificate to each handshake."""

import ssl
from pathlib import Path
from typing import Final

_ENCRYPTED: Final = "an encrypted key cannot be used"


class CertificateError(Exception):
    """A certificate and key that cannot serve. The message names the files and says what is wrong."""


class SwappingContext:
    """A listening context whose certificate can be replaced while it serves.

    `load_cert_chain` on a live context breaks every later handshake once the pair does not match, so each pair gets a context
    of its own, and `sni_callback`, which runs for each handshake with or without a server name, hands over the newest.
    """

    def __init__(self) -> None:
        self.listening = _server_context()
        self.listening.sni_callback = self._hand_over
        self._current: ssl.SSLContext | None = None

    @property
    def present(self) -> bool:
        """Tell whether there is a certificate to serve with."""
        return self._current is not None

    def load(self, certificate: Path, key: Path) -> None:
        """Serve with this pair from now on. Raises CertificateError, and keeps the old pair, when it cannot be used."""
        context = _server_context()
        try:
            context.load_cert_chain(certificate, key, password=_refuse_password)
        except OSError as error:
            reason = error.strerror or str(error)
            msg = f"cannot serve with {certificate} and {key}: {reason}; `ray-webhook certs issue` makes a pair"
            raise CertificateError(msg) from None
        except ValueError:
            msg = f"cannot serve with {key}: {_ENCRYPTED}; store it without a password"
            raise CertificateError(msg) from None
        self._current = context

    def _hand_over(self, connection: ssl.SSLObject, _name: str | None, _listening: ssl.SSLContext) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _refuse_password() -> str:
    raise ValueError(_ENCRYPTED)
