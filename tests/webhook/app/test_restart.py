"""Shutdown of real processes: answers while draining, and a restart without failed requests."""

import json
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests import ROOT
from tests.harness.apiserver import pod_review
from tests.harness.listener import until
from tests.harness.server import SECONDS, Running, serving
from tests.webhook.app.front import Backend, Front
from webhook.api import names
from webhook.cli.files import read_manifests
from webhook.httpserver.protocol import PortLimits
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.views import as_cluster

EXAMPLE = ROOT / "examples" / "tpu-three-replicas.yaml"
DRAIN_SECONDS = 1.2
RETRIES = 10
"""How often client-go repeats a request that was answered with Retry-After."""


def pod() -> dict[str, object]:
    manifest = next(
        found for found in read_manifests([EXAMPLE]) if found.kind == names.RAYCLUSTER_KIND
    )
    return dict(list(expand(manifest.document, as_cluster(manifest)))[1])


@contextmanager
def draining(directory: Path, seconds: float) -> Iterator[Running]:
    """Serve the example; a stop takes `seconds`."""
    directory.mkdir(parents=True, exist_ok=True)
    with serving(directory, [EXAMPLE], "--serving.drain-seconds", str(seconds)) as running:
        yield running


class Callers:
    """Clients like kube-apiserver: on kept connections, repeating only what says Retry-After."""

    def __init__(self, url: str, trust: ssl.SSLContext, count: int = 3) -> None:
        self._url = url
        self._trust = trust
        self._body = json.dumps(pod_review(pod(), dry_run=True)).encode()
        self._stop = threading.Event()
        self.answered = 0
        self.repeated = 0
        self.lost: list[str] = []
        self._threads = [threading.Thread(target=self._call) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def progress(self) -> None:
        """Wait until more was answered."""
        wanted = self.answered + 20
        until(lambda: self.answered >= wanted or self.lost != [], 20)

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _call(self) -> None:
        with httpx.Client(verify=self._trust, timeout=60) as client:
            while not self._stop.wait(0.005):
                try:
                    self._review(client)
                except httpx.HTTPError as error:
                    self.lost.append(repr(error))

    def _review(self, client: httpx.Client) -> None:
        for _ in range(RETRIES):
            answer = client.post(
                self._url, content=self._body, headers={"content-type": "application/json"}
            )
            if answer.status_code == httpx.codes.OK:
                self.answered += 1
                return
            if "retry-after" not in answer.headers:
                break
            self.repeated += 1
            time.sleep(float(answer.headers["retry-after"]))
        self.lost.append(f"{answer.status_code} {answer.text}")


def trusting(*servers: Running) -> ssl.SSLContext:
    return ssl.create_default_context(
        cadata="\n".join(server.authority.read_text() for server in servers)
    )


def test_a_rolling_restart_of_two_processes_under_load_loses_no_request(tmp_path: Path) -> None:
    with ExitStack() as stack:
        old = [
            stack.enter_context(draining(tmp_path / f"old{number}", DRAIN_SECONDS))
            for number in range(2)
        ]
        new = [stack.enter_context(draining(tmp_path / f"new{number}", 0)) for number in range(2)]
        backends = [Backend(server.url, server.admin) for server in (*old, *new)]
        front = stack.enter_context(Front(backends[:2]))
        callers = Callers(f"https://127.0.0.1:{front.port}/mutate", trusting(*old, *new))
        drained: list[int] = []
        try:
            for number in range(2):
                callers.progress()
                front.backends = (
                    *backends[number + 1 : 2],
                    *backends[2 : 3 + number],
                    backends[number],
                )
                callers.progress()
                repeated, stopped_at = callers.repeated, time.monotonic()
                old[number].process.send_signal(signal.SIGTERM)
                assert old[number].process.wait(SECONDS) == 0
                assert time.monotonic() - stopped_at >= DRAIN_SECONDS
                drained.append(callers.repeated - repeated)
            callers.progress()
        finally:
            callers.end()
    assert callers.lost == []
    assert callers.answered > 100
    assert drained == [0, 0], "a process that drains answers"


def test_a_draining_process_is_not_ready_answers_and_ends_the_connection(tmp_path: Path) -> None:
    body = json.dumps(pod_review(pod())).encode()
    with (
        draining(tmp_path, 4) as server,
        httpx.Client(
            verify=trusting(server), headers={"content-type": "application/json"}, timeout=60
        ) as client,
    ):
        before = client.post(f"{server.url}/mutate", content=body)
        assert (before.status_code, before.headers.get("connection")) == (200, None)
        assert (
            httpx.get(f"{server.admin}/readyz", timeout=60).text
            == "[+] certificate\n[+] not draining\n"
        )
        server.process.send_signal(signal.SIGTERM)
        until(lambda: httpx.get(f"{server.admin}/readyz", timeout=60).status_code == 503)
        assert "[-] not draining" in httpx.get(f"{server.admin}/readyz", timeout=60).text
        assert httpx.get(f"{server.admin}/livez", timeout=60).text == "ok"
        for _ in range(2):  # the first on the connection of before, the second on a new one
            after = client.post(f"{server.url}/mutate", content=body)
            assert (after.status_code, after.headers["connection"]) == (200, "close")
        assert server.process.wait(SECONDS) == 0


def test_an_idle_connection_is_closed_and_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    with draining(tmp_path, 0) as server:
        url = urlsplit(server.url)
        with (
            socket.create_connection((url.hostname or "", url.port or 0), timeout=60) as raw,
            trusting(server).wrap_socket(raw, server_hostname="localhost") as idle,
        ):
            idle.sendall(b"GET /mutate HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert idle.recv(4096).startswith(b"HTTP/1.1 405")
            server.process.send_signal(signal.SIGTERM)
            while idle.recv(4096):  # as Go's transport, which reads on idle connections too
                pass
        assert server.process.wait(SECONDS) == 0


def test_idle_connections_are_kept_longer_than_kube_apiserver_keeps_them() -> None:
    assert PortLimits().idle_seconds > 90


def test_readyz_verbose_says_when_the_certificate_expires(server: Running) -> None:
    lines = httpx.get(f"{server.admin}/readyz?verbose", timeout=60).text.splitlines()
    assert lines[0].startswith("[+] certificate: expires 20")
    metrics = httpx.get(f"{server.admin}/metrics", timeout=60).text
    assert "ray_webhook_certificate_expiry_timestamp_seconds 1." in metrics
    assert "ray_webhook_certificate_rejected 0.0" in metrics
    assert 'ray_webhook_build_info{process="serve",version="' in metrics
