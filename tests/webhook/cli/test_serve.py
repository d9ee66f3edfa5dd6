"""`ray-webhook serve` reports a certificate or a port that it cannot use."""

import gc
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.running import Run

ADDRESS = ("--host", "127.0.0.1", "--port", "0", "--admin-port", "0")


@pytest.fixture
def tls(run: Run, tmp_path: Path) -> Path:
    for folder in (tmp_path, tmp_path / "other"):
        assert run("certs", "issue", "--dir", folder).status == 0
    return tmp_path


@pytest.fixture
def refused(run: Run) -> Callable[..., str]:
    def call(folder: Path, *flags: str) -> str:
        done = run("serve", "--standalone", "--tls.cert-dir", folder, *ADDRESS, *flags)
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith("ray-webhook serve: ")
        assert "Traceback" not in done.err
        return done.err

    return call


def test_an_unusable_certificate_is_named(refused: Callable[..., str], tls: Path) -> None:
    assert f"{tls / 'none' / 'tls.crt'}: No such file" in refused(tls / "none")
    (tls / "other" / "tls.key").replace(tls / "tls.key")
    assert "tls.key" in refused(tls), "that of another certificate"


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the process ends too
@pytest.mark.parametrize("flag", ["--port", "--admin-port"])
def test_a_port_in_use_is_named(flag: str, refused: Callable[..., str], tls: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = str(listener.getsockname()[1])
        error = refused(tls, flag, taken)
    gc.collect()
    assert taken in error
    assert "Address already in use" in error


def test_an_address_of_another_machine_is_named(refused: Callable[..., str], tls: Path) -> None:
    assert "192.0.2.1" in refused(tls, "--host", "192.0.2.1")
