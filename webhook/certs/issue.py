"""Issuance of a certificate authority and of server certificates signed by it."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLOCK_SKEW: Final = timedelta(minutes=5)
"""The clock skew between machines: certificates are valid from this long before their issue."""


class Pair(NamedTuple):
    """A certificate with its key, both in PEM."""

    certificate: bytes
    key: bytes


def issue_authority(name: str, days: float, now: datetime | None = None) -> Pair:
    """Return a new certificate authority (ECDSA P-256) called `name`, valid from `now`."""
    key, start, end = _new(days, now)
    return _sign(
        key, name, issuer=_build_name(name), issuer_key=key, period=(start, end), extensions=()
    )


def issue_server(
    authority: Pair,
    names: Sequence[str],
    days: float,
    now: datetime | None = None,
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
) -> Pair:
    """Return a server certificate for DNS names and IPs, not valid longer than `authority`."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        msg = (
            "the authority's key is not an elliptic-curve key: issue the authority with "
            "`ray-webhook certs issue` too"
        )
        raise TypeError(msg)
    key, start, end = _new(days, now)
    period = start, min(end, issuer.not_valid_after_utc)
    extensions = (
        x509.SubjectAlternativeName([_general_name(name) for name in names]),
        x509.ExtendedKeyUsage([usage]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
    )
    # X.509 limits a common name to 64 characters; clients compare the alternative names.
    return _sign(
        key,
        names[0][:64],
        issuer=issuer.subject,
        issuer_key=issuer_key,
        period=period,
        extensions=extensions,
    )


def _new(
    days: float, now: datetime | None
) -> tuple[ec.EllipticCurvePrivateKey, datetime, datetime]:
    """Return a key, and the start and end of validity."""
    now = now or datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    return key, now - CLOCK_SKEW, now + timedelta(days=days)


def _build_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _sign(
    key: ec.EllipticCurvePrivateKey,
    name: str,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    period: tuple[datetime, datetime],
    extensions: Sequence[x509.ExtensionType],
) -> Pair:
    """Return the pair of a key; signed by itself, it is an authority."""
    authority, public = key is issuer_key, key.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(_build_name(name))
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(period[0])
        .not_valid_after(period[1])
        .add_extension(
            x509.BasicConstraints(ca=authority, path_length=0 if authority else None),
            critical=True,
        )
        .add_extension(_usage(authority=authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    certificate, pem = builder.sign(issuer_key, hashes.SHA256()), serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(pem), private)


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def describe_certificates(pem: bytes) -> str:
    """Return subject, issuer, names, validity and SHA-256 fingerprint of each certificate.

    Raises ValueError without a certificate.
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
