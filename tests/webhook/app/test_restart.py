"""Shutdown of real processes: answers while draining, and a restart without failed requests."""

import json
import signal
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests import ROOT
from tests.e2e.balancer import Balancer
from tests.e2e.process import accepts_connections, free_port, says_ready
from tests.harness.apiserver import pod_review
from tests.harness.listener import Callers, until
from tests.harness.server import SECONDS, Running, serving
from tests.webhook.httpserver.test_answers import connected
from webhook.api import names
from webhook.cli.files import read_manifests
from webhook.httpserver.protocol import PortLimits
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.views import as_cluster

EXAMPLE = ROOT / "examples" / "tpu-three-replicas.yaml"
DRAIN_SECONDS = 3.0


def pod() -> dict[str, object]:
    manifest = next(
        found for found in read_manifests([EXAMPLE]) if found.kind == names.RAYCLUSTER_KIND
    )
    return dict(list(expand(manifest.document, as_cluster(manifest)))[1])


@contextmanager
def draining(directory: Path, seconds: float) -> Iterator[Running]:
    """Serve the example; a stop takes `seconds`."""
    with serving(directory, [EXAMPLE], "--serving.drain-seconds", str(seconds)) as running:
        yield running


def trusting(*servers: Running) -> ssl.SSLContext:
    return ssl.create_default_context(
        cadata="\n".join(server.authority.read_text() for server in servers)
    )


def test_a_rolling_restart_of_two_processes_under_load_loses_no_request(tmp_path: Path) -> None:
    body = json.dumps(pod_review(pod(), dry_run=True))
    with ExitStack() as stack:
        servers = [
            stack.enter_context(draining(tmp_path / f"{number}", seconds))
            for number, seconds in enumerate((DRAIN_SECONDS, DRAIN_SECONDS, 0))
        ]
        backends = [
            (server.port, partial(says_ready, urlsplit(server.admin).port or 0))
            for server in servers
        ]
        balancer = Balancer(port := free_port(), backends, lag=0)
        stack.callback(balancer.stop)
        balancer.start()
        until(lambda: accepts_connections(port))
        url, headers = f"https://127.0.0.1:{port}/mutate", {"content-type": "application/json"}
        callers = Callers(
            trusting(*servers), lambda client: client.post(url, content=body, headers=headers)
        )
        with callers:
            for server in servers[:2]:
                callers.wait_for_more()
                before, stopped_at = len(callers.answers), time.monotonic()
                server.process.send_signal(signal.SIGTERM)
                assert server.process.wait(SECONDS) == 0
                assert time.monotonic() - stopped_at >= DRAIN_SECONDS
                assert len(callers.answers) > before
            callers.wait_for_more()
    assert callers.lost == []


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
        with connected(server) as idle:
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
