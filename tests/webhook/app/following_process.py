"""A process of `serve` that watches a fake API server on loopback."""

import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.harness.served import kubeconfig
from tests.harness.server import PROGRAM
from webhook.cli.main import main


@contextmanager
def following(folder: Path, port: int) -> Iterator["subprocess.Popen[str]"]:
    """Start a process that follows the API server at a port; its log is `log.jsonl`."""
    assert main(["certs", "issue", "--dir", str(folder)]) == 0
    flags = {
        "--host": "127.0.0.1", "--port": "0", "--admin-port": "0",
        "--kubeconfig": str(kubeconfig(folder, port)), "--installation.namespace": "ray-webhook",
        "--tls.cert-dir": str(folder)}  # fmt: skip
    command = [
        sys.executable, *PROGRAM, "serve",
        *(word for flag in flags.items() for word in flag)]  # fmt: skip
    with (
        (folder / "log.jsonl").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def is_ready(admin: str) -> bool:
    return httpx.get(f"{admin}/readyz", timeout=60).status_code == httpx.codes.OK


def trust(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "ca.crt"))
