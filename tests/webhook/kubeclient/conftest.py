"""Fixtures for tests of connections."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.harness.fake_api import FakeApi
from webhook.certs.issue import issue_authority, issue_server


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi().serving() as serving:
        yield serving


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an authority, its server and client, and a server with another authority:
    for each `<name>` its `<name>.crt` and `<name>.key`.
    """
    directory = tmp_path_factory.mktemp("pki")
    names = ["127.0.0.1", "kubernetes"]
    authority, other = issue_authority("ca", 1), issue_authority("other-ca", 1)
    client = issue_server(authority, ["it"], 1, usage=ExtendedKeyUsageOID.CLIENT_AUTH)
    server, other_server = issue_server(authority, names, 1), issue_server(other, names, 1)
    for name, pair in {
        "ca": authority,
        "other-ca": other,
        "server": server,
        "other-server": other_server,
        "client": client,
    }.items():
        (directory / f"{name}.crt").write_bytes(pair.certificate)
        (directory / f"{name}.key").write_bytes(pair.key)
    return directory
