"""A review that cannot be decided reports the reason to the user of the pod and to operators."""

import asyncio
import json
from pathlib import Path

import httpx

from tests.harness.apiserver import pod_review
from tests.harness.fake_api import FakeApi
from tests.harness.listener import until
from tests.harness.pods import worker
from tests.harness.server import ready
from tests.webhook.app.following_process import following, is_ready, trust


async def test_the_reason_of_a_503_is_in_kubectl_log_metrics_readiness(tmp_path: Path) -> None:
    async with FakeApi().serving() as api:
        with following(tmp_path, api.port) as process:
            url, admin = await asyncio.to_thread(ready, process)
            async with httpx.AsyncClient(verify=trust(tmp_path), timeout=60) as client:
                await asyncio.to_thread(until, lambda: is_ready(admin), 30)
                before = (await client.get(f"{admin}/readyz?verbose")).text
                api.before = lambda request: 403 if "fieldSelector" in request.query else 0
                review = pod_review(worker("hosts-4"), dry_run=True)
                refused = await client.post(f"{url}/mutate", json=review)
                verbose = await client.get(f"{admin}/readyz?verbose")
                metrics = (await client.get(f"{admin}/metrics")).text
    assert "undecided reviews: 0 since the start\n" in before
    status = refused.json()
    assert (refused.status_code, status["kind"], status["code"]) == (503, "Status", 503)
    assert "retry-after" not in refused.headers
    message = status["message"]
    assert message.startswith("Pod default/odd-hosts-4-worker-: a live read failed: ")
    assert verbose.status_code == 200
    assert f": {message}\n" in verbose.text
    assert "ray_webhook_undecided_reviews_total 1.0\n" in metrics
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert message in [line.get("message") for line in lines if line["event"] == "refused"]
