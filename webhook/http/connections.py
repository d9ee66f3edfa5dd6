"""The connections of one listener: how many there are, what they hold together, and how long each
has waited.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from webhook.http.bounds import Bounds
from webhook.http.turns import Turns

TICK_SECONDS: Final = 1
"""How often the connections are looked over. A count of ticks is the clock here: it is free to
read.
"""

_FEW: Final = 10
"""Those never answered are few when they are at most one of so many that there may be."""

_ROOM: Final = 50
"""One of so many connections goes when there are too many: looking for those that wait longest
takes longer than closing them.
"""


class Connection(Protocol):
    """A client's connection, in the handshake or after it."""

    since: int
    """The tick at which it began to wait for what it waits for."""

    held: int
    """Bytes of bodies that were read and not answered."""

    def patience(self) -> int | None:
        """Return for how many seconds it may wait for its client, or None when the client waits for
        us.
        """

    def answered(self) -> bool:
        """Tell whether it has had an answer."""

    def proven(self) -> bool:
        """Tell whether it has had an answer, and asks for nothing new."""

    def unfinished(self) -> bool:
        """Tell whether what it holds can be given up: the client sends a request still, or more
        than one.
        """

    def unsent(self) -> int:
        """Return the bytes of answers that its client has not taken."""

    def overload(self) -> None:
        """Give up what it holds, telling the client to try again."""

    def end(self) -> None:
        """Close it."""

    def abort(self) -> None:
        """Close it without another byte."""


class Connections:
    """Keeps the connections of a listener within its bounds. `refused` is told of what goes beyond:
    status and reason.
    """

    def __init__(self, bounds: Bounds, refused: Callable[[int, str], None]) -> None:
        self.bounds = bounds
        self.refused = refused
        self.turns = Turns()
        self.tick = 0
        self.held = 0
        self._all: dict[Connection, object] = {}
        self._stuck: dict[Connection, None] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all)

    def add(self, connection: Connection) -> None:
        """Note a connection. When there are too many, some that wait for their clients go."""
        self._all[connection] = None
        if len(self._all) > self.bounds.connections:
            self._make_room()

    def remove(self, connection: Connection) -> bool:
        """Forget a connection and what it holds. Return False when it was forgotten before."""
        self._stuck.pop(connection, None)
        self.release(connection)
        return self._all.pop(connection, self) is None

    def release(self, connection: Connection) -> None:
        """Forget what a connection holds."""
        self.held -= connection.held
        connection.held = 0

    def relieve(self) -> None:
        """Give up the largest of the unfinished requests, so that small ones pass beside it."""
        largest = max(
            self._all,
            key=lambda connection: connection.held if connection.unfinished() else 0,
            default=None,
        )
        if largest is not None and largest.held and largest.unfinished():
            self.release(largest)
            largest.overload()

    def stuck(self, connection: Connection) -> None:
        """Note a connection whose client does not take its answers; those with most to take go when
        it is too much.
        """
        self._stuck[connection] = None
        unsent = {each: each.unsent() for each in self._stuck}
        while sum(unsent.values()) > self.bounds.in_flight:
            largest = max(unsent, key=unsent.__getitem__)
            del unsent[largest]
            self._close((largest,))

    def unstuck(self, connection: Connection) -> None:
        """Note that its client goes on."""
        self._stuck.pop(connection, None)

    async def watch(self) -> None:
        """Close what waits too long for its client, until cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.sweep()

    def sweep(self) -> None:
        """Let a tick pass."""
        self.tick += TICK_SECONDS
        for connection in tuple(self._all):
            patience = connection.patience()
            if patience is not None and self.tick - connection.since > patience:
                connection.end()

    def close(self) -> None:
        """Close all that wait for their clients to begin."""
        self._close(
            [each for each in self._all if not each.proven() and each.patience() is not None]
        )

    def _make_room(self) -> None:
        """Close those that wait for their clients, the ones that wait longest first.

        Those that had no answer yet go before those that had one, unless they are few: then it is
        not they who fill the room. When all of them wait for us, the newest goes.
        """
        limit = self.bounds.connections
        waiting = sorted(
            (each for each in self._all if each.patience() is not None), key=lambda each: each.since
        )
        strangers = [each for each in waiting if not each.proven()]
        # Ticks are coarse: one that is in the middle of another request is not among the first
        strangers.sort(key=lambda each: each.answered())
        proven = [each for each in waiting if each.proven()]
        chosen = strangers if len(strangers) > limit // _FEW else proven or strangers
        count = max(len(self._all) - limit, limit // _ROOM)
        self._close(chosen[:count] or (next(reversed(self._all)),))
        self.refused(503, f"there are more than {limit} connections (serving.connections)")

    def _close(self, connections: Iterable[Connection]) -> None:
        for connection in connections:
            self.remove(connection)
            connection.abort()
