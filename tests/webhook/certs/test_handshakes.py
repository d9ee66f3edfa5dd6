"""Handshakes: certificates in files under rotation, rejected pairs, and certificates of clients."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.harness.listener import (
    REFUSED,
    Callers,
    ask,
    authority,
    listening,
    serial,
    server_pair,
    trusting,
    until,
    write,
)
from webhook.certs.certificate_watcher import CertificateFiles, CertificateWatcher
from webhook.certs.context import CIPHERS, CertificateError, SwappingContext
from webhook.certs.issue import Pair, issue_server
from webhook.config.configuration import CipherSuite
from webhook.httpserver.connections import names_of

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(scope="module")
def signer() -> Pair:
    return authority()


def test_a_new_pair_is_served_without_one_failed_request(tmp_path: Path, signer: Pair) -> None:
    pairs = [server_pair(signer) for _ in range(6)]
    with listening(tmp_path, pairs[0]) as listener:
        url = f"https://127.0.0.1:{listener.port}/"
        with Callers(trusting(signer), lambda client: client.get(url)) as callers:
            for number, pair in enumerate(pairs[1:], 2):
                write(tmp_path, pair)
                until(lambda number=number: listener.watcher.loads == number)  # type: ignore[misc]  # a default binds it
                callers.wait_for_more()
        assert ask(listener.port, trusting(signer))[0] == serial(pairs[-1])
    assert callers.lost == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["localhost", None])
def test_a_new_pair_is_served(
    tmp_path: Path, signer: Pair, version: ssl.TLSVersion, name: str | None
) -> None:
    first, second = server_pair(signer), server_pair(signer)
    with listening(tmp_path, first) as listener:
        assert ask(listener.port, trusting(signer, version), name=name)[0] == serial(first)
        write(tmp_path, second)
        until(lambda: listener.watcher.loads == 2)
        assert ask(listener.port, trusting(signer, version), name=name)[0] == serial(second)


def test_tls_1_1_is_refused(tmp_path: Path, signer: Pair) -> None:
    context = trusting(signer)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with listening(tmp_path, server_pair(signer)) as listener, pytest.raises(ssl.SSLError):
        ask(listener.port, context)


def test_the_minimum_version_is_a_setting(tmp_path: Path, signer: Pair) -> None:
    newest = SwappingContext(min_version="VersionTLS13")
    with listening(tmp_path, server_pair(signer), context=newest) as listener:
        assert ask(listener.port, trusting(signer, ssl.TLSVersion.TLSv1_3))
        with pytest.raises(ssl.SSLError):
            ask(listener.port, trusting(signer, ssl.TLSVersion.TLSv1_2))


def test_cipher_suites_of_tls_1_2_are_a_setting(tmp_path: Path, signer: Pair) -> None:
    allowed = SwappingContext(cipher_suites=["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"])
    client = trusting(signer, ssl.TLSVersion.TLSv1_2)
    with listening(tmp_path, server_pair(signer), context=allowed) as listener:
        assert ask(listener.port, client)
        client.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        with pytest.raises(ssl.SSLError):
            ask(listener.port, client)


def test_every_cipher_suite_of_the_settings_has_a_name_of_openssl() -> None:
    assert set(get_args(CipherSuite)) == set(CIPHERS)
    names = {each["name"] for each in SwappingContext().listening.get_ciphers()}
    assert set(CIPHERS.values()) <= names


def test_handshakes_are_refused_until_a_certificate_exists(tmp_path: Path, signer: Pair) -> None:
    with listening(tmp_path) as listener:
        until(lambda: listener.watcher.problem)
        with pytest.raises(REFUSED):
            ask(listener.port, trusting(signer))
        assert not listener.context.valid(0)
        write(tmp_path, server_pair(signer))
        until(lambda: listener.watcher.loads)
        assert ask(listener.port, trusting(signer))[1].startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("fault", [
    "mismatched", "truncated certificate", "truncated key", "empty", "missing", "expired",
    "not valid yet",
])  # fmt: skip
def test_an_unusable_pair_heals(
    tmp_path: Path, signer: Pair, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    good, other = server_pair(signer), server_pair(signer)
    with listening(tmp_path, good) as listener:
        spoil(tmp_path, fault, other, signer)
        until(lambda: listener.watcher.problem)
        for version in VERSIONS:
            for _ in range(3):
                assert ask(listener.port, trusting(signer, version))[0] == serial(good)
        assert str(tmp_path / "tls.crt") in listener.watcher.problem
        errors = [each.message for each in caplog.records if each.levelname == "ERROR"]
        assert len(set(errors)) == len(errors) > 0
        write(tmp_path, good)
        until(lambda: not listener.watcher.problem)
        write(tmp_path, other)
        until(lambda: listener.watcher.loads == 2)
        assert ask(listener.port, trusting(signer))[0] == serial(other)


def spoil(directory: Path, fault: str, other: Pair, signer: Pair) -> None:
    if fault == "mismatched":
        (directory / "tls.crt").write_bytes(other.certificate)
    elif fault == "truncated certificate":
        (directory / "tls.crt").write_bytes(other.certificate[:200])
    elif fault == "truncated key":
        (directory / "tls.key").write_bytes(other.key[:80])
    elif fault == "empty":
        (directory / "tls.crt").write_bytes(b"")
    elif fault == "missing":
        (directory / "tls.crt").unlink()
    elif fault == "expired":
        write(directory, server_pair(signer, datetime.now(UTC) - timedelta(days=2)))
    else:
        write(directory, server_pair(signer, datetime.now(UTC) + timedelta(hours=1)))


def test_a_pair_is_served_from_its_first_valid_moment(tmp_path: Path, signer: Pair) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    good, later = server_pair(signer), server_pair(signer, now + timedelta(minutes=60))
    context, clock = SwappingContext(), [now.timestamp()]
    files = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    keeper = CertificateWatcher(files, context, clock=lambda: clock[0])

    def poll(pair: Pair, minutes: float) -> None:
        write(tmp_path, pair)
        clock[0] = (now + timedelta(minutes=minutes)).timestamp()
        asyncio.run(keeper.poll())

    poll(good, 0)
    served = context.expires
    poll(later, 10)
    poll(later, 54)  # certificates are valid 5 minutes before they are issued
    assert (context.expires, keeper.loads) == (served, 1)
    start = f"{now + timedelta(minutes=55):%Y-%m-%d %H:%M}"
    assert keeper.problem.endswith(
        f": the certificate is valid from {start} UTC; it is served then"
    )
    poll(later, 56)
    assert (context.expires > served, keeper.loads) == (True, 2)


def test_a_pair_that_is_not_valid_yet_is_not_ready_where_there_is_no_other() -> None:
    context, now = SwappingContext(), datetime.now(UTC).replace(microsecond=0)
    context.load(server_pair(authority(), now + timedelta(minutes=60)))
    minutes = [(now + timedelta(minutes=each)).timestamp() for each in (0, 54, 56)]
    assert [context.valid(each) for each in minutes] == [False, False, True]


def test_an_expired_pair_alone_is_served_and_not_valid(tmp_path: Path, signer: Pair) -> None:
    expired = server_pair(signer, datetime.now(UTC) - timedelta(days=2))
    with listening(tmp_path, expired) as listener:
        assert not listener.context.valid(datetime.now(UTC).timestamp())
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            ask(listener.port, trusting(signer))


def test_a_symlink_swap_of_kubelet_is_one_change(tmp_path: Path, signer: Pair) -> None:
    first, second = server_pair(signer), server_pair(signer)
    mount(tmp_path, "..2026_01", first)
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(Path("..data") / name)
    with listening(tmp_path) as listener:
        until(lambda: listener.watcher.loads)
        mount(tmp_path, "..2026_02", second)
        until(lambda: listener.watcher.loads == 2)
        assert ask(listener.port, trusting(signer))[0] == serial(second)
        assert listener.watcher.problem == ""


def mount(directory: Path, version: str, pair: Pair) -> None:
    """Write a version of a Secret beside the others, and move `..data` to it."""
    write(directory / version, pair)
    (directory / "..data_tmp").symlink_to(version)
    (directory / "..data_tmp").rename(directory / "..data")


def test_an_encrypted_key_is_refused_with_what_to_do() -> None:
    pair = server_pair(authority())
    key = serialization.load_pem_private_key(pair.key, None)
    sealed = serialization.BestAvailableEncryption(b"secret")
    encrypted = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, sealed
    )
    with pytest.raises(CertificateError, match="without a password"):
        SwappingContext().load(Pair(pair.certificate, encrypted))


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
