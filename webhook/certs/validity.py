"""The validity of a certificate, and the error of one that cannot be used."""

from datetime import datetime
from typing import NamedTuple

from cryptography import x509


class CertificateError(Exception):
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
