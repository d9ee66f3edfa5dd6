"""Client certificates: required, missing, of another authority, with another name."""

import ssl
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.harness.listener import (
    REFUSED,
    ask,
    authority,
    listening,
    server_pair,
    trusting,
    until,
    write,
)
from webhook.certs.context import CertificateError, SwappingContext
from webhook.certs.issue import Pair, issue_server
from webhook.httpserver.connections import names_of

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def bearing(context: ssl.SSLContext, directory: Path, pair: Pair) -> ssl.SSLContext:
    write(directory, pair)
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    return context


def client_of(signer: Pair, name: str) -> Pair:
    return issue_server(signer, [name], 1, usage=ExtendedKeyUsageOID.CLIENT_AUTH)


@pytest.mark.parametrize("version", VERSIONS)
def test_only_clients_of_the_authority_are_answered_and_of_another_one_after_its_rotation(
    tmp_path: Path, signer: Pair, version: ssl.TLSVersion
) -> None:
    authorities = authority(), authority()
    first, second = [
        bearing(trusting(signer, version), tmp_path / f"{number}", client_of(trusted, "any"))
        for number, trusted in enumerate(authorities)
    ]
    file = tmp_path / "clients.crt"
    file.write_bytes(authorities[0].certificate)
    with listening(tmp_path, server_pair(signer), file) as listener:
        assert ask(listener.port, first)[1].startswith(b"HTTP/1.1 200")
        for refused in (trusting(signer, version), second):
            with pytest.raises(REFUSED):
                ask(listener.port, refused)
        file.write_bytes(authorities[1].certificate)
        until(lambda: listener.watcher.loads == 2)
        assert ask(listener.port, second)[1].startswith(b"HTTP/1.1 200")
        with pytest.raises(REFUSED):
            ask(listener.port, first)


def test_a_client_with_another_name_is_not_answered(tmp_path: Path, signer: Pair) -> None:
    trusted = authority()
    (file := tmp_path / "clients.crt").write_bytes(trusted.certificate)
    with listening(tmp_path, server_pair(signer), file, ("kube-apiserver",)) as listener:
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


def test_tls_1_2_has_no_cbc(tmp_path: Path, signer: Pair) -> None:
    client = trusting(signer, ssl.TLSVersion.TLSv1_2)
    client.set_ciphers("ECDHE-ECDSA-AES128-SHA256")
    with listening(tmp_path, server_pair(signer)) as listener, pytest.raises(REFUSED):
        ask(listener.port, client)
