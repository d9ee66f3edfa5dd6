"""Reviews that wait for a live read: answered before a stop, and reported where it fails."""

import json
import signal
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.harness.apiserver import pod_review
from tests.harness.fake_api import FakeApi, Request
from tests.harness.listener import until
from tests.harness.objects import worker
from tests.harness.served import kubeconfig, serving_cluster
from tests.harness.server import SECONDS, Running, serving


@contextmanager
def following(folder: Path) -> Iterator[tuple[FakeApi, Running, httpx.Client]]:
    """Run a process that follows a fake API server, and yield it with a client of it."""
    with serving_cluster() as cluster:
        flags = ("--installation.namespace", "ray-webhook", "--kubeconfig")
        config = str(kubeconfig(folder, cluster.api.port))
        with serving(folder, None, *flags, config) as server:
            trust = ssl.create_default_context(cafile=str(server.authority))
            with httpx.Client(verify=trust, timeout=60) as client:
                until(lambda: client.get(f"{server.admin}/readyz").is_success)
                yield cluster.api, server, client


def review(server: Running, client: httpx.Client) -> httpx.Response:
    body = pod_review(worker("hosts-4"), dry_run=True)
    return client.post(f"{server.url}/mutate", json=body)


def test_a_stopping_process_answers_a_review_that_waits_for_a_read(tmp_path: Path) -> None:
    reads = threading.Event()

    def noticed(request: Request) -> int:
        if "fieldSelector" in request.query:
            reads.set()
        return 0

    with following(tmp_path) as (api, server, client), ThreadPoolExecutor(1) as pool:
        api.list_delay, api.before = 0.5, noticed
        asked = pool.submit(review, server, client)
        assert reads.wait(SECONDS)
        server.process.send_signal(signal.SIGTERM)
        answered = asked.result()
        assert (answered.status_code, answered.json()["kind"]) == (200, "AdmissionReview")
        assert server.process.wait(SECONDS) == 0


def test_the_reason_of_a_503_is_in_kubectl_log_metrics_readiness(tmp_path: Path) -> None:
    with following(tmp_path) as (api, server, client):
        before = client.get(f"{server.admin}/readyz?verbose").text
        api.before = lambda request: 403 if "fieldSelector" in request.query else 0
        refused = review(server, client)
        verbose = client.get(f"{server.admin}/readyz?verbose")
        metrics = client.get(f"{server.admin}/metrics").text
    assert "undecided reviews: 0 since the start\n" in before
    status = refused.json()
    assert (refused.status_code, status["kind"], status["code"]) == (503, "Status", 503)
    assert "retry-after" not in refused.headers
    message = status["message"]
    assert message.startswith("Pod team/odd-worker-: a live read failed: ")
    assert verbose.status_code == 200
    assert f": {message}\n" in verbose.text
    assert "ray_webhook_undecided_reviews_total 1.0\n" in metrics
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert message in [line.get("message") for line in lines if line["event"] == "refused"]
