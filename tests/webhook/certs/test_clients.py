"""Client certificates: required, missing, of another authority, with another name."""

import ssl
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.harness.listener import (
    REFUSED,
    Listener,
    ask,
    authority,
    server_pair,
    trusting,
    until,
    write,
)
from webhook.certs.context import CertificateError, SwappingContext
from webhook.certs.issue import Pair, issue_server
from webhook.httpserver.connections import names_of

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(name="signer", scope="module")
def _signer() -> Pair:
    return authority()


def bearing(context: ssl.SSLContext, directory: Path, pair: Pair) -> ssl.SSLContext:
    write(directory, pair)
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    return context


def client_of(signer: Pair, name: str) -> Pair:
    return issue_server(signer, [name], 1, usage=ExtendedKeyUsageOID.CLIENT_AUTH)


@pytest.mark.parametrize("version", VERSIONS)
def test_other_clients_are_refused(tmp_path: Path, signer: Pair, version: ssl.TLSVersion) -> None:
    write(tmp_path, server_pair(signer))
    trusted, stranger = authority(), authority()
    (tmp_path / "clients.crt").write_bytes(trusted.certificate)
    with Listener(tmp_path, tmp_path / "clients.crt") as listener:
        until(lambda: listener.watcher.loads)
        client = client_of(trusted, "kube-apiserver")
        good = bearing(trusting(signer, version), tmp_path / "good", client)
        assert ask(listener.port, good)[1].startswith(b"HTTP/1.1 200")
        with pytest.raises(REFUSED):
            ask(listener.port, trusting(signer, version))
        client = client_of(stranger, "kube-apiserver")
        wrong = bearing(trusting(signer, version), tmp_path / "wrong", client)
        with pytest.raises(REFUSED):
            ask(listener.port, wrong)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rotation_verifies_clients(tmp_path: Path, signer: Pair, version: ssl.TLSVersion) -> None:
    write(tmp_path, server_pair(signer))
    before, after = authority(), authority()
    (tmp_path / "clients.crt").write_bytes(before.certificate)
    with Listener(tmp_path, tmp_path / "clients.crt") as listener:
        until(lambda: listener.watcher.loads == 1)
        (tmp_path / "clients.crt").write_bytes(after.certificate)
        until(lambda: listener.watcher.loads == 2)
        client = client_of(after, "kube-apiserver")
        fresh = bearing(trusting(signer, version), tmp_path / "fresh", client)
        assert ask(listener.port, fresh)[1].startswith(b"HTTP/1.1 200")
        client = client_of(before, "kube-apiserver")
        stale = bearing(trusting(signer, version), tmp_path / "stale", client)
        with pytest.raises(REFUSED):
            ask(listener.port, stale)


def test_a_client_with_another_name_is_not_answered(tmp_path: Path, signer: Pair) -> None:
    write(tmp_path, server_pair(signer))
    trusted = authority()
    (tmp_path / "clients.crt").write_bytes(trusted.certificate)
    with Listener(tmp_path, tmp_path / "clients.crt", ("kube-apiserver",)) as listener:
        until(lambda: listener.watcher.loads)
        named = bearing(trusting(signer), tmp_path / "named", client_of(trusted, "kube-apiserver"))
        assert ask(listener.port, named)[1].startswith(b"HTTP/1.1 200")
        other = bearing(trusting(signer), tmp_path / "other", client_of(trusted, "someone-else"))
        with pytest.raises(REFUSED):
            ask(listener.port, other)


def test_both_contexts_ask_for_the_certificate(signer: Pair) -> None:
    context = SwappingContext(verify_clients=True)
    assert context.listening.verify_mode is ssl.CERT_REQUIRED
    with pytest.raises(CertificateError, match=r"tls\.clientCa"):
        context.load(server_pair(signer), b"no certificate")


def test_the_names_of_a_client_are_its_common_name_and_its_dns_names() -> None:
    certificate = {
        "subject": ((("organizationName", "system:masters"),), (("commonName", "a"),)),
        "subjectAltName": (("DNS", "b"), ("IP Address", "c")),
    }
    assert names_of(certificate) == {"a", "b"}


@pytest.mark.parametrize(("cipher", "spoken"), [
    ("ECDHE-ECDSA-AES128-GCM-SHA256", True), ("ECDHE-ECDSA-AES128-SHA256", False),
])  # fmt: skip
def test_tls_1_2_has_no_cbc(tmp_path: Path, signer: Pair, cipher: str, spoken: bool) -> None:
    write(tmp_path, server_pair(signer))
    with Listener(tmp_path) as listener:
        until(lambda: listener.watcher.loads)
        client = trusting(signer, ssl.TLSVersion.TLSv1_2)
        client.set_ciphers(cipher)
        if spoken:
            assert ask(listener.port, client)[1].startswith(b"HTTP/1.1 200")
        else:
            with pytest.raises(REFUSED):
                ask(listener.port, client)
