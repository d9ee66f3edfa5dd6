"""A response as one write: uvicorn writes head and body of a response separately, each in a TLS
record and a system call of its own.

See docs/contributing/decisions/0027-an-answer-is-one-write.md.
"""

import asyncio
from typing import Final, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from webhook.httpserver.protocol import LimitedProtocol

JSON: Final = (b"content-type", b"application/json")
_CLOSE: Final = (b"connection", b"close")


class OneWrite:
    """The outermost application, which sends a response of known length at once.

    It waits for one round of the event loop before it sends: with many concurrent requests,
    encryption would evict the code for reviews from the CPU's caches.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cycle = cast("RequestResponseCycle", getattr(send, "__self__", None))
        # uvicorn leaves out the body of a response to HEAD.
        if not isinstance(cycle, RequestResponseCycle) or scope["method"] == "HEAD":
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def join(message: Message) -> None:
            nonlocal start
            if start is None:
                start = message
                return
            await asyncio.sleep(0)
            if message.get("more_body") or cycle.response_started or not _can_write(cycle, start):
                if not cycle.response_started:
                    await send(start)
                await send(message)
            else:
                _write(cycle, start, message.get("body", b""))

        await self._app(scope, receive, join)


def _can_write(cycle: RequestResponseCycle, start: Message) -> bool:
    """Return whether a response may be written without uvicorn: the client reads, and the length is
    known.
    """
    has_length = any(name == b"content-length" for name, _ in start["headers"])
    return has_length and not (cycle.flow.write_paused or cycle.disconnected)


def _write(cycle: RequestResponseCycle, start: Message, body: bytes) -> None:
    """Write a response, and change the cycle as uvicorn does."""
    headers = start["headers"]
    last = _CLOSE in headers
    cycle.keep_alive = cycle.keep_alive and not last
    # uvicorn's order; a test compares both byte by byte.
    lines = [b"%b: %b\r\n" % header for header in (*cycle.default_headers, *headers)]
    if not (cycle.keep_alive or last):
        lines.append(b"connection: close\r\n")
    cycle.waiting_for_100_continue = False
    cycle.response_started = cycle.response_complete = True
    cycle.transport.write(b"".join((STATUS_LINE[start["status"]], *lines, b"\r\n", body)))
    cycle.message_event.set()
    if start["status"] == 200 and JSON in headers:  # noqa: PLR2004 - a review was answered
        # Only a review: everybody can request other paths once a second.
        cast("LimitedProtocol", cycle.transport.get_protocol()).proven = True
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
