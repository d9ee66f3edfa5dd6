"""The certificate authority of a test control plane: certificates, keys, kubeconfigs."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from webhook.certs.issue import Pair, issue_authority, issue_server

MASTERS = "system:masters"
"""The group that the RBAC authorizer always lets pass."""

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Credentials:
    """Writes keys and certificates into `folder`; every file is readable by its owner alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700)
        self._authority = issue_authority("test control plane", 1)
        self.ca = self._write("ca.crt", self._authority.certificate)
        server = issue_server(self._authority, ["localhost", "127.0.0.1"], 1)
        self.server_certificate, self.server_key = self._write_pair("kube-apiserver", server)

    def kubeconfig(self, server: str, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for a client certificate of a user and groups. JSON is YAML."""
        stem = user.replace(":", "-").replace("/", "-")
        certificate, key = self._write_pair(stem, self._issue_client(user, groups))
        cluster = {"server": server, "certificate-authority": str(self.ca)}
        files = {"client-certificate": str(certificate), "client-key": str(key)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": files}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        return self._write(f"{stem}.kubeconfig", json.dumps(content, indent=2).encode())

    def _issue_client(self, user: str, groups: Sequence[str]) -> Pair:
        authority = x509.load_pem_x509_certificate(self._authority.certificate)
        signer = serialization.load_pem_private_key(self._authority.key, None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = ",".join([f"CN={user}", *(f"O={group}" for group in groups)])
        certificate = _sign(x509.Name.from_rfc4514_string(subject), key, authority.subject, signer)
        return Pair(certificate, _pem(key, serialization.PrivateFormat.PKCS8))

    def _write_pair(self, stem: str, pair: Pair) -> tuple[Path, Path]:
        return self._write(f"{stem}.crt", pair.certificate), self._write(f"{stem}.key", pair.key)

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
    signer, key = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
    issuer, subject = (x509.Name.from_rfc4514_string(f"CN={name}") for name in (authority, service))
    is_authority = x509.BasicConstraints(ca=True, path_length=0)
    loopback = x509.IPAddress(IPv4Address("127.0.0.1"))
    names = x509.SubjectAlternativeName([x509.DNSName(authority)])
    hosts = x509.SubjectAlternativeName([x509.DNSName(service), loopback])
    return {
        "ca.crt": _sign(issuer, signer, issuer, signer, is_authority, names),
        "ca.key": _pem(signer, serialization.PrivateFormat.TraditionalOpenSSL),
        "tls.crt": _sign(subject, key, issuer, signer, hosts),
        "tls.key": _pem(key, serialization.PrivateFormat.PKCS8),
    }


def _sign(
    subject: x509.Name, key: Key, issuer: x509.Name, signer: Key, *extensions: x509.ExtensionType
) -> bytes:
    now = datetime.now(UTC)
    begin, end = now - timedelta(minutes=5), now + timedelta(days=365)
    number = x509.random_serial_number()
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), number, begin, end)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _pem(key: Key, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
