"""`ray-webhook certs` issues certificates that clients accept, restricts the key to its owner, and
reads certificates back.
"""

import ssl
import stat
from pathlib import Path

import pytest

from webhook.cli.main import main


def issue(directory: Path, *more: str) -> int:
    """Return the exit code of issuing into a directory."""
    return main(["certs", "issue", "--dir", str(directory), *more])


def test_what_is_issued_can_be_inspected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        issue(
            tmp_path / "new" / "certs",
            "--name",
            "webhook.ray.svc",
            "--name",
            "10.0.0.1",
            "--days",
            "7",
        )
        == 0
    )
    assert "webhook.ray.svc, 10.0.0.1" in capsys.readouterr().out
    assert main(["certs", "inspect", str(tmp_path / "new" / "certs" / "tls.crt")]) == 0
    out = capsys.readouterr().out
    assert "names:       webhook.ray.svc, 10.0.0.1" in out
    assert "issuer:      CN=ray-webhook demo CA" in out
    assert "fingerprint: " in out


def test_the_authority_has_no_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    issue(tmp_path)
    capsys.readouterr()
    assert main(["certs", "inspect", str(tmp_path / "ca.crt")]) == 0
    assert "names:       none" in capsys.readouterr().out


def test_a_client_that_trusts_the_authority_accepts_key_and_certificate(tmp_path: Path) -> None:
    issue(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    peer = client.wrap_bio(outgoing, incoming, server_hostname="localhost")
    for side in (peer, server, peer, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert peer.version() == "TLSv1.3"
    assert ("DNS", "localhost") in (peer.getpeercert() or {})["subjectAltName"]


@pytest.mark.parametrize("earlier", [None, 0o644])
def test_only_the_owner_can_read_the_key_even_where_an_older_one_was_open(
    earlier: int | None, tmp_path: Path
) -> None:
    key = tmp_path / "tls.key"
    if earlier is not None:
        key.write_text("old")
        key.chmod(earlier)
    assert issue(tmp_path) == 0
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_text().startswith("-----BEGIN PRIVATE KEY-----")


@pytest.mark.parametrize("days", ["0", "-1", "3651", "ten", "1.5", "", "\u00b2"])
def test_a_bad_number_of_days_is_refused_with_the_bounds(
    days: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        issue(tmp_path, f"--days={days}")
    assert caught.value.code == 2
    assert f"{days!r} is not a number of days from 1 to 3650" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["m\u00fcnchen", "", "a b", "x" * 300, "*"])
def test_a_name_that_no_client_could_ask_for_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        issue(tmp_path, "--name", name)
    assert caught.value.code == 2
    assert "is not a DNS name or IP address" in capsys.readouterr().err


def test_a_wildcard_of_a_domain_is_a_name(tmp_path: Path) -> None:
    assert issue(tmp_path, "--name", "*.ray.svc", "--name", "::1") == 0


def test_a_directory_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert issue(tmp_path / "file" / "certs") == 2
    assert f"{tmp_path / 'file'}" in capsys.readouterr().err
    assert issue(tmp_path / "file") == 2
    assert "File exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), ("hello", "no certificate in PEM"), ("", "no certificate in PEM")],
)
def test_a_file_without_certificates_is_named(
    content: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.crt"
    if content is not None:
        path.write_text(content)
    assert main(["certs", "inspect", str(path)]) == 2
    err = capsys.readouterr().err
    assert str(path) in err
    assert said in err
