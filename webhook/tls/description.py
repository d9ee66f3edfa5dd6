"""What certificates say, for people."""

from cryptography import x509
from cryptography.hazmat.primitives import hashes


def described(pem: bytes) -> str:
    """Return subject, issuer, names, validity and SHA-256 fingerprint of each certificate.

    Raises ValueError when there is none.
    """
    return "".join(map(_description, x509.load_pem_x509_certificates(pem)))


def _description(certificate: x509.Certificate) -> str:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        alternatives = ", ".join(str(name.value) for name in names)
    except x509.ExtensionNotFound:
        alternatives = "none"
    return (
        f"subject:     {certificate.subject.rfc4514_string()}\n"
        f"issuer:      {certificate.issuer.rfc4514_string()}\n"
        f"names:       {alternatives}\n"
        f"valid:       {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} to "
        f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC\n"
        f"fingerprint: {certificate.fingerprint(hashes.SHA256()).hex(':')}\n"
    )
