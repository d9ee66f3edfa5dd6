"""The names in a client's certificate, which the handshake has verified."""

from typing import Any


def names_of(certificate: dict[str, Any]) -> set[str]:
    """Return the common and DNS names of a certificate, in the form of `SSLSocket.getpeercert`."""
    subject = {
        value
        for relative in certificate.get("subject", ())
        for key, value in relative
        if key == "commonName"
    }
    alternatives = certificate.get("subjectAltName", ())
    return subject | {value for kind, value in alternatives if kind == "DNS"}
