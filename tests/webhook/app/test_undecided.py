"""Reviews that wait for a live read: answered before a stop, and reported where it fails."""

import asyncio
import json
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.harness.apiserver import pod_review
from tests.harness.fake_api import FakeApi, Request
from tests.harness.pods import worker
from tests.harness.served import kubeconfig
from tests.harness.server import PROGRAM, ready
from tests.webhook.app.test_scheduling import polled
from webhook.cli.main import main


class Following(NamedTuple):
    """A process that follows an API server: its addresses, and a client of it."""

    process: subprocess.Popen[str]
    url: str
    admin: str
    client: httpx.AsyncClient

    async def review(self) -> httpx.Response:
        body = pod_review(worker("hosts-4"), dry_run=True)
        return await self.client.post(f"{self.url}/mutate", json=body)


def start(folder: Path, port: int) -> subprocess.Popen[str]:
    """Start a process that follows the API server at a port, with its log in `log.jsonl`."""
    assert main(["certs", "issue", "--dir", str(folder)]) == 0
    flags = ["--host=127.0.0.1", "--port=0", "--admin-port=0", f"--tls.cert-dir={folder}"]
    flags += [f"--kubeconfig={kubeconfig(folder, port)}", "--installation.namespace=ray-webhook"]
    command = [sys.executable, *PROGRAM, "serve", *flags]
    with (folder / "log.jsonl").open("w") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.PIPE, text=True)


@asynccontextmanager
async def following(folder: Path, port: int) -> AsyncIterator[Following]:
    with start(folder, port) as process:
        try:
            url, admin = await asyncio.to_thread(ready, process)
            trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
            async with httpx.AsyncClient(verify=trust, timeout=60) as client:
                await polled(lambda: client.get(f"{admin}/readyz"), lambda found: found.is_success)
                yield Following(process, url, admin, client)
        finally:
            process.kill()


async def test_a_stopping_process_answers_a_review_that_waits_for_a_read(tmp_path: Path) -> None:
    reads = asyncio.Event()

    def noticed(request: Request) -> int:
        if "fieldSelector" in request.query:
            reads.set()
        return 0

    async with FakeApi().serving() as api, following(tmp_path, api.port) as f:
        api.list_delay, api.before = 1.5, noticed
        asked = asyncio.create_task(f.review())
        await reads.wait()
        f.process.send_signal(signal.SIGTERM)
        answered = await asked
        assert (answered.status_code, answered.json()["kind"]) == (200, "AdmissionReview")
        assert await asyncio.to_thread(f.process.wait, 20) == 0


async def test_the_reason_of_a_503_is_in_kubectl_log_metrics_readiness(tmp_path: Path) -> None:
    async with FakeApi().serving() as api, following(tmp_path, api.port) as f:
        before = (await f.client.get(f"{f.admin}/readyz?verbose")).text
        api.before = lambda request: 403 if "fieldSelector" in request.query else 0
        refused = await f.review()
        verbose = await f.client.get(f"{f.admin}/readyz?verbose")
        metrics = (await f.client.get(f"{f.admin}/metrics")).text
    assert "undecided reviews: 0 since the start\n" in before
    status = refused.json()
    assert (refused.status_code, status["kind"], status["code"]) == (503, "Status", 503)
    assert "retry-after" not in refused.headers
    message = status["message"]
    assert message.startswith("Pod team/odd-worker-: a live read failed: ")
    assert verbose.status_code == 200
    assert f": {message}\n" in verbose.text
    assert "ray_webhook_undecided_reviews_total 1.0\n" in metrics
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert message in [line.get("message") for line in lines if line["event"] == "refused"]
