"""The cost of the route of reviews, counted in calls of Python functions."""

import asyncio
import sys
from types import FrameType

from starlette.types import Message, Scope

from tests.webhook.httpserver.test_budget import Lengths, application

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
