"""Responses in a single write; uvicorn makes two.

See docs/contributing/decisions/0027-an-answer-is-one-write.md.
"""

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from webhook.httpserver.asgi import Send

JSON: Final = (b"content-type", b"application/json")
_CLOSE: Final = (b"connection", b"close")
_OK: Final = 200
_HEAD: Final = b"%b: %b\r\n" % JSON + b"content-length: %d\r\n"


async def send_json(send: Send, body: bytes, *, last: bool) -> None:
    """Answer 200 with JSON. With `last`, close the connection afterwards.

    uvicorn sends head and body each in a TLS record and a system call of their own, and checks
    every header twice, which takes a tenth of a review's time. If `send` is uvicorn's, and its
    client reads the response, both are sent at once. With many concurrent requests, delaying the
    writes until all responses are computed saves another tenth: encryption evicts the code for
    reviews from the CPU's caches.
    """
    await asyncio.sleep(0)
    cycle = getattr(send, "__self__", None)
    if (
        not isinstance(cycle, RequestResponseCycle)
        or cycle.flow.write_paused
        or cycle.disconnected
        or cycle.response_started
    ):
        headers = [JSON, (b"content-length", b"%d" % len(body)), *([_CLOSE] if last else [])]
        await send({"type": "http.response.start", "status": _OK, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return
    cycle.keep_alive = cycle.keep_alive and not last
    lines = [b"%b: %b\r\n" % header for header in cycle.default_headers]
    end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
    cycle.waiting_for_100_continue = False
    cycle.response_started = cycle.response_complete = True
    cycle.transport.write(b"".join((STATUS_LINE[_OK], *lines, _HEAD % len(body), end, body)))
    cycle.message_event.set()
    if not (connection := cycle.transport.get_protocol()).proven:  # type: ignore[attr-defined]
        connection.prove()  # type: ignore[attr-defined]  # see protocol.py
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
