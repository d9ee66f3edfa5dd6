"""A request as it is read, held against what uvicorn reads itself."""

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from tests.http.test_reply import Transport
from webhook.http.asgi import Receive, Scope, Send
from webhook.http.bounded import bounded
from webhook.http.bounds import Bounds
from webhook.http.connections import Connections


class Client(Transport):
    """A connection that takes whatever is written."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Take everything."""

    def is_closing(self) -> bool:
        """Return False."""
        return False

    def pause_reading(self) -> None:
        """Do nothing."""


async def never(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Answer nothing."""
    await asyncio.Event().wait()


async def read(protocol: type[HttpToolsProtocol], data: bytes) -> dict[str, Any]:
    """Return all that is known of the last request in `data`."""
    config = uvicorn.Config(never, ws="none", lifespan="off", interface="asgi3", log_config=None)
    state = ServerState()
    state.default_headers = [(b"date", b"Sun, 22 Nov 2026 20:00:00 GMT")]
    connection = protocol(config, state, {"state": 1})
    connection.connection_made(Client())
    connection.data_received(data)
    known = vars(connection.cycle).copy()
    for task in connection.tasks:
        task.cancel()
    assert known.pop("transport") is connection.transport
    assert known.pop("flow") is connection.flow
    assert known.pop("on_response") == connection.on_response_complete
    return {
        **known,
        "message_event": known["message_event"].is_set(),
        "queued": len(connection.pipeline),
        "under way": len(connection.tasks),
    }


PLAIN = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
CHUNK = b"4\r\nbody\r\n"


@pytest.mark.parametrize(
    "data",
    [
        PLAIN,
        PLAIN * 2,
        b"POST /mutate?timeout=10s&a=%20 HTTP/1.1\r\nHOST: x\r\ncontent-length: 4\r\n\r\nbo",
        b"GET /a%20b%2Fc HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
        b"GET http://x/absolute HTTP/1.1\r\nconnection: close\r\n\r\n",
        b"POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 4\r\n\r\n",
        b"POST / HTTP/1.1\r\nExpect: x\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNK * 3,
        b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    ],
)
def test_a_request_is_read_as_by_uvicorn(data: bytes) -> None:
    ours = bounded(HttpToolsProtocol, Connections(Bounds(), lambda _status, _reason: None))

    async def both() -> None:
        assert await read(ours, data) == await read(HttpToolsProtocol, data)

    asyncio.run(both())
