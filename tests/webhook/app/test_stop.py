"""A shutdown completes reviews in progress with their requests, and answers the rest."""

import asyncio
import signal
import threading
from pathlib import Path

import httpx

from tests.harness.apiserver import pod_review
from tests.harness.fake_api import FakeApi, Request
from tests.harness.listener import until
from tests.harness.pods import worker
from tests.harness.server import SECONDS, ready
from tests.webhook.app.following_process import following, is_ready, trust
from tests.webhook.httpserver.test_budget import POST, Lengths
from tests.webhook.httpserver.test_limits import answer, served
from webhook.admission.reviewer import REVIEW_SECONDS, Outcome
from webhook.httpserver.application import Readiness
from webhook.httpserver.review_routes import review_application


async def test_a_stopping_process_answers_a_review_that_waits_for_a_read(tmp_path: Path) -> None:
    reads = asyncio.Event()

    def noticed(request: Request) -> int:
        if "fieldSelector" in request.query:
            reads.set()
        return 0

    async with FakeApi().serving() as api:
        with following(tmp_path, api.port) as process:
            url, admin = await asyncio.to_thread(ready, process)
            async with httpx.AsyncClient(verify=trust(tmp_path), timeout=60) as client:
                await asyncio.to_thread(until, lambda: is_ready(admin), 30)
                api.list_delay, api.before = 1.5, noticed
                body = pod_review(worker("hosts-4"), dry_run=True)
                asked = asyncio.create_task(client.post(f"{url}/mutate", json=body))
                await reads.wait()
                process.send_signal(signal.SIGTERM)
                answered = await asked
            assert (answered.status_code, answered.json()["kind"]) == (200, "AdmissionReview")
            assert await asyncio.to_thread(process.wait, 20) == 0


class Endless(Lengths):
    """Never answers a review."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    async def review(
        self, body: bytes, seconds: float = REVIEW_SECONDS, client: str = ""
    ) -> Outcome:
        del body, seconds, client
        self.asked.set()
        return await asyncio.Future()


def test_what_is_not_answered_within_the_grace_period_is_503_and_may_be_repeated() -> None:
    reviewer = Endless()
    with (
        served(app=review_application({"/mutate": reviewer}, Readiness(), reviewer)) as server,
        server.client() as waiting,
    ):
        waiting.sendall(POST + b"content-length: 2\r\n\r\n{}")
        assert reviewer.asked.wait(SECONDS)
        server.stop()
        refused = answer(waiting)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 1\r\n" in refused
        assert reviewer.refusals == [503]
