"""`ray-webhook serve` reports a certificate or a port that it cannot use."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.running import Run

PROGRAM = [sys.executable, "-m", "webhook.cli.main"]
PORTS = {"--host": "127.0.0.1", "--port": "0", "--admin-port": "0"}


@pytest.fixture
def tls(run: Run, tmp_path: Path) -> Path:
    """A folder with a certificate that can be loaded."""
    for folder in (tmp_path, tmp_path / "other"):
        assert run("certs", "issue", "--dir", folder).status == 0
    return tmp_path


def refused(folder: Path, **flags: str) -> str:
    """Return the error of a service that cannot start."""
    ports = PORTS | {f"--{name.replace('_', '-')}": value for name, value in flags.items()}
    words = [word for pair in ports.items() for word in pair]
    command = [*PROGRAM, "serve", "--standalone", "--tls.cert-dir", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ray-webhook serve: ")
    assert "Traceback" not in done.stderr
    return done.stderr


def test_an_unusable_certificate_is_named(tls: Path) -> None:
    assert f"{tls / 'none' / 'tls.crt'}: No such file" in refused(tls / "none")
    (tls / "other" / "tls.key").replace(tls / "tls.key")
    assert "tls.key" in refused(tls), "that of another certificate"


@pytest.mark.parametrize("flag", ["port", "admin_port"])
def test_a_port_in_use_is_named(flag: str, tls: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = str(listener.getsockname()[1])
        error = refused(tls, **{flag: taken})
    assert taken in error
    assert "Address already in use" in error


def test_an_address_of_another_machine_is_named(tls: Path) -> None:
    assert "192.0.2.1" in refused(tls, host="192.0.2.1")
