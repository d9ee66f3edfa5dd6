"""Certificates of servers, clients and authorities."""

import ssl
from pathlib import Path

from cryptography.x509.oid import ExtendedKeyUsageOID

from webhook.certs.issue import Pair, issue_authority, issue_server


def write_pki(directory: Path) -> None:
    """Write an authority, its server and client, and a server with another authority: for each
    `<name>` its `<name>.crt` and `<name>.key`.
    """
    names = ["127.0.0.1", "kubernetes"]
    authority, other = issue_authority("ca", 1), issue_authority("other-ca", 1)
    client = issue_server(authority, ["it"], 1, usage=ExtendedKeyUsageOID.CLIENT_AUTH)
    _write(directory, "ca", authority)
    _write(directory, "other-ca", other)
    _write(directory, "server", issue_server(authority, names, 1))
    _write(directory, "other-server", issue_server(other, names, 1))
    _write(directory, "client", client)


def _write(directory: Path, name: str, pair: Pair) -> None:
    (directory / f"{name}.crt").write_bytes(pair.certificate)
    (directory / f"{name}.key").write_bytes(pair.key)


def server_tls(pki: Path, name: str = "server", *, clients: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / f"{name}.crt", pki / f"{name}.key")
    context.verify_mode = ssl.CERT_REQUIRED if clients else ssl.CERT_NONE
    return context
