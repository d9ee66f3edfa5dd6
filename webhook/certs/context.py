"""The listener's TLS context, with the newest certificate for each handshake."""

import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, NamedTuple

from cryptography import x509

from webhook.api.failures import InputError
from webhook.certs.issue import Pair


class CertificateError(InputError):
    """An unusable certificate or key. The message has the location, the error and the fix."""


class Validity(NamedTuple):
    """The start and the end of validity, in UTC."""

    start: datetime
    end: datetime

    def worn(self, now: datetime) -> bool:
        """Return whether two thirds have passed, when cert-manager renews by default."""
        return now >= self.start + (self.end - self.start) * 2 / 3


def read_validity(pem: bytes) -> Validity:
    """Return the validity of the leaf, the first in `pem`. Raises CertificateError."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise CertificateError("there is no certificate in PEM in it") from None
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


CIPHERS: Final = {
    f"TLS_ECDHE_{key}_WITH_{name}": f"ECDHE-{key}-{openssl_name}"
    for name, openssl_name in (
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
    for key in ("ECDSA", "RSA")
}
"""The names of OpenSSL for the cipher suites of TLS 1.2 that can be allowed, by IANA name, in the
order of the default.
"""

_VERSIONS: Final = {
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}

_ENCRYPTED: Final = "the key is encrypted; store it without a password"


class SwappingContext:
    """A listening context whose certificate can be replaced while it serves.

    `load_cert_chain` on a live context breaks every later handshake if the pair does not match, so
    each pair has its own context, and `sni_callback`, which runs for each handshake with or without
    a server name, returns the newest.

    With `verify_clients`, a client without a certificate of an authority given to `load` is
    rejected. OpenSSL reads the verify mode from the listening context and the authorities from the
    returned one, so both have both. The same applies to `min_version` and `cipher_suites`, by the
    names of the settings.
    """

    def __init__(
        self,
        *,
        verify_clients: bool = False,
        min_version: str = "VersionTLS12",
        cipher_suites: Sequence[str] = (),
    ) -> None:
        self._verify = verify_clients
        self._min_version = _VERSIONS[min_version]
        self._ciphers = ":".join(CIPHERS[name] for name in cipher_suites or CIPHERS)
        self.listening = self._fresh()
        self.listening.sni_callback = self._hand_over
        self._current: ssl.SSLContext | None = None
        self._starts = 0.0
        self.expires = 0.0
        """When the certificate expires, in seconds since 1970; 0 without a certificate."""

    def expiry(self) -> str:
        """Return a sentence with the expiry of the served certificate."""
        return f"expires {datetime.fromtimestamp(self.expires, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def valid(self, now: float) -> bool:
        """Return whether a certificate is loaded that is valid at `now`, in seconds since 1970."""
        return self._current is not None and self._starts <= now < self.expires

    def load(self, pair: Pair, client_authorities: bytes = b"") -> None:
        """Serve this pair. Raises CertificateError, and keeps the old pair, if unusable."""
        context = self._fresh()
        start, end = read_validity(pair.certificate)
        try:
            with _as_file(pair.certificate + b"\n" + pair.key) as path:
                # Without a callback, OpenSSL would ask for the password on the terminal.
                context.load_cert_chain(path, password=_refuse_password)
        except ssl.SSLError as error:
            raise CertificateError(_explain(error)) from None
        except ValueError:
            raise CertificateError(_ENCRYPTED) from None
        if self._verify:
            try:
                context.load_verify_locations(cadata=client_authorities.decode("ascii"))
            except (ssl.SSLError, ValueError):
                message = "the client authorities (tls.clientCa) are not certificates in PEM"
                raise CertificateError(message) from None
        self._current = context
        self._starts, self.expires = start.timestamp(), end.timestamp()

    def _fresh(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._min_version
        context.set_ciphers(self._ciphers)
        # The API server forces HTTP/1.1 for webhooks, and uvicorn has no HTTP/2.
        # https://github.com/kubernetes/kubernetes/issues/75791
        context.set_alpn_protocols(["http/1.1"])
        if self._verify:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _hand_over(
        self, connection: ssl.SSLObject, _name: str | None, _listening: ssl.SSLContext
    ) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path to `content` in memory, since OpenSSL only reads files."""
    descriptor = os.memfd_create("pair") if hasattr(os, "memfd_create") else _open_unnamed_file()
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield f"/dev/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _open_unnamed_file() -> int:
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)  # noqa: PTH108 - from here on only the descriptor leads to it
    return descriptor


def _explain(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not the key of the certificate"
    return f"certificate or key is cut off or no PEM ({error.reason or error})"


def _refuse_password() -> str:
    raise ValueError(_ENCRYPTED)
