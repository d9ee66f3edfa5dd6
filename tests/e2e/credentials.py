"""The certificate authority of a test control plane: certificates, keys, kubeconfigs."""

import datetime  # noqa: ICN001 - not the module of one class
import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

MASTERS = "system:masters"
"""The group that the RBAC authorizer always lets pass."""

_LIFETIME = datetime.timedelta(days=1)


class Credentials:
    """Writes keys and certificates into `folder`; every file is readable by its owner alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700)
        self._ca_key = ec.generate_private_key(ec.SECP256R1())
        name = _name("test control plane")
        self._ca = (
            _builder(name, name, self._ca_key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._ca_key, hashes.SHA256())
        )
        self.ca = self._write("ca.crt", _pem(self._ca))
        certificate, self.server_key = self._issue("kube-apiserver", ())
        self.server_certificate = certificate
        self.service_account_key, self.service_account_public = self._service_account_keys()

    def kubeconfig(self, server: str, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for a client certificate of a user and groups. JSON is YAML."""
        certificate, key = self._issue(user, groups)
        cluster = {"server": server, "certificate-authority": str(self.ca)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [
                {
                    "name": user,
                    "user": {"client-certificate": str(certificate), "client-key": str(key)},
                }
            ],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        return self._write(f"{_file_name(user)}.kubeconfig", json.dumps(content, indent=2).encode())

    def _issue(self, common_name: str, organizations: Sequence[str]) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            _builder(_name(common_name, organizations), self._ca.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self._ca_key, hashes.SHA256())
        )
        stem = _file_name(common_name)
        return self._write(f"{stem}.crt", _pem(certificate)), self._write(
            f"{stem}.key", _private_pem(key)
        )

    def _service_account_keys(self) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return self._write("service-account.key", _private_pem(key)), self._write(
            "service-account.pub", public
        )

    def _write(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        return path


def rotated(authority: str, service: str) -> dict[str, bytes]:
    """The Secret of a cert-controller that finds nothing to renew: an authority, and a certificate
    of it for a service and for loopback.

    It renews what ends within 90 days, looks for the authority's name among its DNS names, and
    reads no key of it but RSA in PKCS 1.
    https://github.com/open-policy-agent/cert-controller/blob/v0.16.0/pkg/rotator/rotator.go
    """
    ca_key, key = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
    issuer, year = _name(authority), datetime.timedelta(days=365)
    names = [x509.DNSName(service), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
    ca = (
        _builder(issuer, issuer, ca_key.public_key(), year)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(authority)]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    certificate = (
        _builder(_name(service), issuer, key.public_key(), year)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return {
        "ca.crt": _pem(ca),
        "ca.key": ca_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        ),
        "tls.crt": _pem(certificate),
        "tls.key": _private_pem(key),
    }


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
    lifetime: datetime.timedelta = _LIFETIME,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + lifetime)
    )


def _name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _file_name(user: str) -> str:
    return user.replace(":", "-").replace("/", "-")


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
