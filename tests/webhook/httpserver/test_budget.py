"""Large bodies share a budget: the largest incomplete one is dropped. The route costs few calls."""

import asyncio
import socket
import sys
import threading
from time import perf_counter
from types import FrameType
from typing import Any, cast

import pytest
from starlette.types import Message, Scope

from tests.harness.listener import until
from tests.harness.server import SECONDS
from tests.webhook.httpserver.test_limits import answer, asked, served
from webhook.admission.reviewer import REVIEW_SECONDS, Outcome
from webhook.api.review import ALLOWED
from webhook.httpserver.application import Readiness
from webhook.httpserver.body_budget import BodyBudget, OverBudget
from webhook.httpserver.review_routes import review_application

POST = b"POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


class Lengths:
    """Answers with the length of the body, fails without one, and counts the refusals."""

    def __init__(self) -> None:
        self.refusals: list[int] = []
        self.errors: list[str] = []
        self._began = perf_counter()

    async def review(
        self, body: bytes, seconds: float = REVIEW_SECONDS, client: str = ""
    ) -> Outcome:
        del seconds, client
        if not body:
            raise LookupError
        return Outcome(cast("Any", None), ALLOWED, b"%d" % len(body))

    def reviewed(self, _outcome: Outcome, seconds: float) -> None:
        """Fail unless the time of a review is a part of that of the test."""
        assert 0 < seconds < perf_counter() - self._began

    def undecided(self, reason: str) -> None:
        """Do nothing."""

    def refused(self, status: int, _reason: str) -> None:
        self.refusals.append(status)

    def failed(self, error: Exception) -> None:
        self.errors.append(type(error).__name__)


def application(lengths: Lengths, gate: Readiness | None = None) -> Any:  # noqa: ANN401 - an application
    """Return an endpoint whose large bodies have 400,000 bytes together."""
    return review_application(
        {"/mutate": lengths}, gate or Readiness(), lengths, BodyBudget(400_000)
    )


def post(connection: socket.socket, length: int, sent: int) -> None:
    """Send a head that announces a body, and as much of the body."""
    connection.sendall(POST + b"content-length: %d\r\n\r\n" % length + b"x" * sent)


def test_the_largest_incomplete_body_is_503_and_smaller_ones_pass() -> None:
    lengths = Lengths()
    with (
        served(app=application(lengths)) as server,
        server.clients(*["127.0.0.1"] * 3) as (large, small, good),
    ):
        post(large, 300_000, 299_999)
        post(small, 200_000, 199_999)
        refused = answer(large)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 1\r\n" in refused
        post(good, 9, 9)
        assert answer(good).endswith(b"\r\n\r\n9")
        assert asked(small, b"x").endswith(b"\r\n\r\n200000")
        assert lengths.refusals == [503]


def test_an_internal_error_is_500_and_the_connection_stays() -> None:
    lengths = Lengths()
    with served(app=application(lengths)) as server, server.client() as connection:
        post(connection, 0, 0)
        assert answer(connection).startswith(b"HTTP/1.1 500 ")
        post(connection, 9, 9)
        assert answer(connection).endswith(b"\r\n\r\n9")
        assert (lengths.refusals, lengths.errors) == ([500], ["LookupError"])


async def test_all_large_bodies_have_64_mib_together() -> None:
    with BodyBudget().body() as count:
        count(64 * 1024 * 1024, False)
        with pytest.raises(OverBudget):
            count(64 * 1024 * 1024 + 1, False)


def test_what_was_refused_or_answered_counts_no_longer() -> None:
    lengths = Lengths()
    with served(app=application(lengths)) as server, server.client() as connection:
        post(connection, 900_000, 900_000)
        assert answer(connection).startswith(b"HTTP/1.1 503 ")
        for _ in range(5):
            post(connection, 300_000, 300_000)
            assert answer(connection).endswith(b"\r\n\r\n300000")
        assert lengths.refusals == [503]


def test_what_a_client_left_unfinished_counts_no_longer() -> None:
    lengths = Lengths()
    with served(app=application(lengths)) as server:
        for _ in range(5):
            with server.client() as gone:
                post(gone, 300_000, 200_000)
                until(lambda: server.connections == 1)
            until(lambda: server.connections == 0)
        with server.client() as connection:
            post(connection, 300_000, 300_000)
            assert answer(connection).endswith(b"\r\n\r\n300000")


def test_reviews_are_503_until_the_process_has_been_ready_once() -> None:
    conditions = {"Leases": False}
    gate = Readiness({"Leases": lambda: conditions["Leases"]})
    app = application(Lengths(), gate)
    with served(app=app) as server, server.clients(*["127.0.0.1"] * 3) as (small, large, later):
        for connection, length in ((small, 9), (large, 300_000)):
            post(connection, length, length)
            head, _, text = answer(connection).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert {b"retry-after: 1", b"connection: close"} <= {*head.split(b"\r\n")}
            assert text == b"not ready: waiting for Leases; try again"
        for ready, draining in ((True, False), (False, False), (False, True)):
            conditions["Leases"], gate.draining = ready, draining
            post(later, 9, 9)
            head, _, text = answer(later).partition(b"\r\n\r\n")
            assert (head[:12], text) == (b"HTTP/1.1 200", b"9")
            assert (b"connection: close" in head) is draining


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


CALLS = 70
"""From the call of the application to its response. A route whose parameters FastAPI resolves needs
130.
"""


def test_a_review_passes_few_functions_besides_its_reviewer() -> None:
    application_calls: list[str] = []
    scope: Scope = {
        "type": "http", "method": "POST", "path": "/mutate", "query_string": b"timeout=10s",
        "headers": [(b"content-type", b"application/json")]}  # fmt: skip
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            application_calls.append(frame.f_code.co_qualname)

    async def ask() -> None:
        review = application(Lengths())
        await review(dict(scope), receive, send)
        sys.setprofile(note)
        try:
            await review(dict(scope), receive, send)
        finally:
            sys.setprofile(None)

    asyncio.run(ask())
    assert sent[-1]["body"] == b"2"
    assert len(application_calls) <= CALLS, application_calls
