"""The addresses on which processes listen: all of IPv6 and IPv4 by default; their log on both
streams.
"""

import asyncio
import json
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from tests.harness.listener import until
from tests.harness.served import kubeconfig, serving_cluster
from tests.harness.server import PROGRAM
from webhook.cli.main import main
from webhook.httpserver.server import HttpServer

FLAGS = {
    "serve": ["--standalone", "--state=examples", "--port=0", "--admin-port=0"],
    "controller": ["--port=0", "--installation.namespace=n"],
}


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


LOOPBACK = ("127.0.0.1", "[::1]")[: 1 + has_ipv6()]


@contextmanager
def listening(process: str, folder: Path, *flags: str) -> Iterator[list[str]]:
    """Run a process, and yield its addresses once it listens; both its streams are `log`."""
    assert main(["certs", "issue", "--dir", str(folder)]) == 0
    log = folder / "log"
    with serving_cluster() as cluster, log.open("w") as out:
        more = {
            "serve": f"--tls.cert-dir={folder}",
            "controller": f"--kubeconfig={kubeconfig(folder, cluster.api.port)}",
        }
        words = [sys.executable, *PROGRAM, process, *FLAGS[process], more[process], *flags]
        with subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT) as program:
            try:
                until(lambda: "/readyz" in log.read_text() or program.poll() is not None)
                line = next(text for text in log.read_text().splitlines() if "/readyz" in text)
                yield re.findall(r"https?://[^/ ]+", line)
            finally:
                program.kill()


@pytest.mark.parametrize("process", FLAGS)
def test_processes_listen_on_both_families(process: str, tmp_path: Path) -> None:
    with listening(process, tmp_path) as addresses:
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        assert len(addresses) == len(FLAGS[process]) // 2
        for address, loopback in product(addresses, LOOPBACK):
            url = address.replace("127.0.0.1", loopback)
            path = "/mutate" if url.startswith("https") else "/livez"
            status = httpx.get(f"{url}{path}", verify=trust, timeout=60).status_code
            assert status == (405 if path == "/mutate" else 200)


@pytest.mark.parametrize("loopback", LOOPBACK)
def test_a_process_with_an_address_listens_on_it_alone(loopback: str, tmp_path: Path) -> None:
    (other,) = {"127.0.0.1", "[::1]"} - {loopback}
    with listening("serve", tmp_path, f"--host={loopback.strip('[]')}") as (_, admin):
        assert loopback in admin
        assert httpx.get(f"{admin}/livez", timeout=60).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{admin.replace(loopback, other)}/livez", timeout=60)


async def test_a_machine_without_ipv6_listens_on_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    server = HttpServer(FastAPI(), "", 0)
    port = server.bind()
    serving = asyncio.create_task(server.run())
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    with pytest.raises(OSError, match=r"::1|Cannot assign"):
        await asyncio.open_connection("::1", port)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize(
    ("command", "form"), [("serve", "json"), ("controller", "json"), ("controller", "text")]
)
def test_each_line_has_the_form_of_the_log(command: str, form: str, tmp_path: Path) -> None:
    with listening(command, tmp_path, f"--log.format={form}") as addresses:
        assert addresses
    if form == "json":
        events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        assert "listening" in {each["event"] for each in events}
        assert {each["process"] for each in events} == {command}
