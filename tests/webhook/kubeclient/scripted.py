"""A server that sends the bytes that a test specifies."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

Script = Callable[["Visit"], Awaitable[None]]
"""What is done on each connection, which is closed after."""


class Visit:
    """One connection to the server."""

    def __init__(
        self, server: "Scripted", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader = reader
        self.writer = writer
        self._server = server

    async def request(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        self._server.asked += 1
        return head

    async def say(self, *pieces: bytes) -> None:
        """Send pieces, each in a packet of its own as far as that can be had."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)


class Scripted:
    """The server: its port, and how many connections and requests came."""

    def __init__(self, script: Script) -> None:
        self.port = 0
        self.visits = 0
        self.asked = 0
        self._script = script
        self._tasks: set[asyncio.Task[None]] = set()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                await self._script(Visit(self, reader, writer))
            finally:
                writer.close()
                await writer.wait_closed()


@asynccontextmanager
async def scripted(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[Scripted]:
    server = Scripted(script)
    async with await asyncio.start_server(server.connected, "127.0.0.1", 0, ssl=tls) as listener:
        server.port = listener.sockets[0].getsockname()[1]
        try:
            yield server
        finally:
            await server.close()


def server_tls(pki: Path, name: str = "server", *, clients: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / f"{name}.crt", pki / f"{name}.key")
    context.verify_mode = ssl.CERT_REQUIRED if clients else ssl.CERT_NONE
    return context
