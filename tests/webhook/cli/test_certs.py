"""`ray-webhook certs` issues certificates that clients accept, and reads them back."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.running import Ended, Run, Write

Issue = Callable[..., Ended]


@pytest.fixture
def issue(run: Run, tmp_path: Path) -> Issue:
    return lambda *more: run("certs", "issue", "--dir", tmp_path, *more)


def test_an_issued_certificate_can_be_inspected(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "certs"
    names = ("--name", "webhook.ray.svc", "--name", "10.0.0.1", "--name", "*.ray.svc")
    ended = run("certs", "issue", "--dir", folder, *names, "--name", "::1", "--days", "7")
    assert ended.status == 0
    assert "webhook.ray.svc, 10.0.0.1, *.ray.svc, ::1" in ended.out
    out = run("certs", "inspect", folder / "tls.crt").out
    assert "names:       webhook.ray.svc, 10.0.0.1, *.ray.svc, ::1" in out
    assert "issuer:      CN=ray-webhook demo CA" in out
    assert "fingerprint: " in out
    assert "names:       none" in run("certs", "inspect", folder / "ca.crt").out


@pytest.mark.parametrize("earlier", [None, 0o644])
def test_only_the_owner_can_read_the_key(earlier: int | None, issue: Issue, tmp_path: Path) -> None:
    key = tmp_path / "tls.key"
    if earlier is not None:
        key.write_text("old")
        key.chmod(earlier)
    assert issue().status == 0
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_text().startswith("-----BEGIN PRIVATE KEY-----")


@pytest.mark.parametrize("days", ["0", "-1", "3651", "ten", "1.5", "", "\u00b2"])
def test_invalid_days_are_refused_with_bounds(days: str, issue: Issue, tmp_path: Path) -> None:
    ended = issue(f"--days={days}")
    said = f"{days!r} is not a number of days from 1 to 3650"
    assert (ended.status, said in ended.err) == (2, True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["m\u00fcnchen", "", "a b", "x" * 300, "*"])
def test_a_name_that_no_client_can_request_is_refused(name: str, issue: Issue) -> None:
    ended = issue("--name", name)
    assert (ended.status, "is not a DNS name or IP address" in ended.err) == (2, True)


@pytest.mark.parametrize(("place", "said"), [("file", "File exists"), ("file/certs", "file")])
def test_a_read_only_directory_is_named(place: str, said: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    status, _, err = run("certs", "issue", "--dir", tmp_path / place)
    assert (status, f"{tmp_path / 'file'}" in err, said in err) == (2, True, True)
    assert "give --dir a folder that you may write to" in err


@pytest.mark.parametrize(("content", "said"), [
    (None, "Is a directory"), ("hello", "no certificate in PEM"), ("", "no certificate in PEM"),
])  # fmt: skip
def test_a_file_without_certificates_is_named(
    content: str | None, said: str, run: Run, write: Write, tmp_path: Path
) -> None:
    path = tmp_path if content is None else write(content)
    status, _, err = run("certs", "inspect", path)
    assert (status, err) == (
        2,
        f"ray-webhook certs: {path}: {said}: give the path of a tls.crt or ca.crt\n",
    )
