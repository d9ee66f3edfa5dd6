"""Coalesced writes: what connections have to send leaves together, once the requests that came together are answered.

A send is dear: it encrypts, enters the kernel, wakes a client that waits, and drives the code that answers out of the caches.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class CoalescedWrites:
    """Lets transports send at the end of a round of the event loop."""

    def __init__(self) -> None:
        self._waiting: list[CoalescingTransport] = []

    def put(self, transport: "CoalescingTransport") -> None:
        """Flush a transport behind all that the event loop has to do now."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.append(transport)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for transport in waiting:
            transport.flush()


class CoalescingTransport:
    """A transport as uvicorn uses it, whose writes wait for those that follow at once: head and body are one send."""

    __slots__ = ("_held", "_transport", "_writes", "get_extra_info", "is_closing", "pause_reading", "resume_reading")

    def __init__(self, transport: asyncio.Transport, writes: CoalescedWrites) -> None:
        self._transport = transport
        self._writes = writes
        self._held: list[bytes] = []
        self.get_extra_info: Callable[..., Any] = transport.get_extra_info
        self.is_closing = transport.is_closing
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading

    def write(self, data: bytes) -> None:
        """Send `data` with what others send in this round of the event loop."""
        if not self._held:
            self._writes.put(self)
        self._held.append(data)

    def flush(self) -> None:
        """Send what is held."""
        if self._held:
            data = b"".join(self._held)
            self._held.clear()
            self._transport.write(data)

    def close(self) -> None:
        """Send what is held, and close."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close, and send nothing more."""
        self._held.clear()
        self._transport.abort()


def coalescing(protocol: type[HttpToolsProtocol]) -> type[HttpToolsProtocol]:
    """Return the protocol whose connections send together."""
    writes = CoalescedWrites()

    class Held(protocol):  # type: ignore[valid-type, misc]  # a class that is an argument
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(cast("asyncio.Transport", CoalescingTransport(transport, writes)))

    return Held
