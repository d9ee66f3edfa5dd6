"""`ray-webhook serve` starts with its settings, or reports which setting is invalid and the allowed
values.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from webhook.cli.main import main


@pytest.fixture
def tls(tmp_path: Path) -> list[str]:
    """Flags with a certificate that can be loaded."""
    assert main(["certs", "issue", "--dir", str(tmp_path)]) == 0
    return ["--tls.cert-dir", str(tmp_path)]


@pytest.fixture
def taken() -> Iterator[str]:
    """A port of loopback that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield str(listener.getsockname()[1])


def refused(capfd: pytest.CaptureFixture[str], *flags: str) -> str:
    """Return what is said when the service cannot start."""
    capfd.readouterr()
    assert main(["serve", *flags]) == 2
    out, err = capfd.readouterr()
    assert not out
    assert err.startswith("ray-webhook serve: ")
    assert "Traceback" not in err
    return err


WRONG = [
    ("--port", "70000", "serving.port", "a whole number from 0 to 65535"),
    ("--port", "-1", "serving.port", "a whole number from 0 to 65535"),
    ("--listen.admin-port", "http", "listen.adminPort", "a whole number from 0 to 65535"),
    ("--serving.drain-seconds", "601", "serving.drainSeconds", "a number from 0 to 600"),
    ("--log.admissions", "some", "log.admissions", "one of all, denied"),
]


@pytest.mark.parametrize(("flag", "value", "setting", "allowed"), WRONG)
def test_a_wrong_flag_names_the_setting_and_what_is_allowed(
    flag: str, value: str, setting: str, allowed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    said = refused(capfd, f"{flag}={value}")
    assert setting in said
    assert allowed in said
    assert value in said


@pytest.mark.parametrize(
    ("variable", "value", "setting", "allowed"),
    [
        ("RAY_WEBHOOK_SERVING__PORT", "70000", "serving.port", "65535"),
        ("RAY_WEBHOOK_LOG__ADMISSIONS", "some", "log.admissions", "one of all, denied"),
        ("RAY_WEBHOOK_SERVING__PROT", "1", "SERVING__PROT", "SERVING__PORT"),
        ("RAY_WEBHOOK_TLS__CLIENT_NAMES", "[", "tls.clientNames", "not JSON"),
    ],
)
def test_a_wrong_environment_names_the_setting_too(
    variable: str,
    value: str,
    setting: str,
    allowed: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, value)
    said = refused(capfd)
    assert setting in said
    assert allowed in said


def test_a_flag_wins_over_the_environment(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_WEBHOOK_LOG__ADMISSIONS", "some")
    assert "log.admissions" not in refused(capfd, "--log.admissions=denied", "--port=70000")


def test_an_unknown_flag_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["serve", "--prot", "1"])
    assert caught.value.code == 2
    assert "--prot" in capfd.readouterr().err


def test_a_missing_certificate_is_named_and_how_to_get_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = refused(capfd, "--standalone", "--tls.cert-dir", str(tmp_path / "missing"))
    assert str(tmp_path / "missing" / "tls.crt") in said


def test_a_certificate_with_the_key_of_another_is_refused(
    tmp_path: Path, tls: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["certs", "issue", "--dir", str(tmp_path / "other")]) == 0
    (tmp_path / "other" / "tls.key").replace(tmp_path / "tls.key")
    assert "tls.key" in refused(capfd, "--standalone", *tls)


@pytest.mark.parametrize("flag", ["--port", "--admin-port"])
def test_a_port_in_use_is_named(flag: str, tls: list[str], taken: str) -> None:
    ports = {"--port": "0", "--admin-port": "0", flag: taken}
    flags = [*tls, "--host", "127.0.0.1", *(word for pair in ports.items() for word in pair)]
    command = [sys.executable, "-m", "webhook.cli.main", "serve", "--standalone", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert taken in done.stderr
    assert "Address already in use" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_that_is_not_ours_is_named(
    tls: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert "192.0.2.1" in refused(
        capfd, "--standalone", *tls, "--host", "192.0.2.1", "--port", "0", "--admin-port", "0"
    )


def test_a_state_that_cannot_be_read_is_named(
    tmp_path: Path, tls: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert "missing.yaml" in refused(
        capfd, "--standalone", *tls, "--state", str(tmp_path / "missing.yaml")
    )
