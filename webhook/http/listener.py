"""The listener: takes connections, counts them from the first moment on, and has the TLS handshake
made.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from webhook.http.bounded import BoundedProtocol
from webhook.http.connections import Connections

_AT_ONCE: Final = 64
"""How many connections are taken before others get their turn."""

_SHUTDOWN_SECONDS: Final = 5
"""How long a client may take to agree that a TLS connection ends."""

_LAST_SECONDS: Final = 1
"""How long a handshake may take once no more connections are taken."""

_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Arrival:
    """A connection that is in its handshake: uvloop and asyncio show it to no protocol before that
    is done.
    """

    def __init__(self, client: socket.socket, connections: Connections) -> None:
        self.since = connections.tick
        self.held = 0
        self._client = client
        self._connections = connections

    def patience(self) -> int:
        """Return the seconds that a handshake may take."""
        return self._connections.bounds.first_byte

    def answered(self) -> bool:
        """Return False: it has not even asked."""
        return False

    def proven(self) -> bool:
        """Return False: it has not even asked."""
        return False

    def unfinished(self) -> bool:
        """Return False: it holds nothing."""
        return False

    def unsent(self) -> int:
        """Return 0: nothing was answered."""
        return 0

    def overload(self) -> None:
        """Do nothing: it holds nothing."""

    def end(self) -> None:
        """Close it."""
        self.abort()

    def abort(self) -> None:
        """Let the handshake meet the end of the connection."""
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)


class Listener:
    """Takes the connections of a socket, until it is closed; as asyncio's server, for uvicorn."""

    def __init__(
        self,
        listening: socket.socket,
        tls: ssl.SSLContext | None,
        connections: Connections,
        protocol: Callable[[], BoundedProtocol],
    ) -> None:
        self._socket = listening
        self._tls = tls
        self._connections = connections
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Take connections from now on."""
        # The name and the argument are the standard library's
        self._socket.setblocking(False)  # noqa: FBT003
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Take no more connections."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)

    async def wait_closed(self) -> None:
        """Give the handshakes that are under way a moment, and end those that take longer."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_SECONDS)
        self._connections.close()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                client, _address = self._socket.accept()
            except OSError as error:
                if error.errno in _FULL:
                    self._pause()
                return
            # The name and the argument are the standard library's
            client.setblocking(False)  # noqa: FBT003
            arrival = Arrival(client, self._connections)
            self._connections.add(arrival)
            task = self._loop.create_task(self._connect(client, arrival))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _pause(self) -> None:
        """Without descriptors there is nothing to take a connection with: look again
        in a moment.
        """
        self._loop.remove_reader(self._socket)
        self._loop.call_later(0.1, self._resume)

    def _resume(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._accept)

    async def _connect(self, client: socket.socket, arrival: Arrival) -> None:
        """Make the handshake and hand the connection over. A client that cannot is no news: anyone
        may try.
        """

        def protocol() -> BoundedProtocol:
            made = self._protocol()
            made.arrival = arrival
            return made

        try:
            if self._tls is None:
                await self._loop.connect_accepted_socket(protocol, client)
            else:
                await self._loop.connect_accepted_socket(
                    protocol,
                    client,
                    ssl=self._tls,
                    ssl_handshake_timeout=self._connections.bounds.first_byte,
                    ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
                )
        except (OSError, RuntimeError):
            client.close()
        finally:
            self._connections.remove(arrival)
