"""Turns: large bodies are read a piece at a time and a few in each round of the event loop, so that
small ones pass beside them.
"""

import asyncio
from collections import deque
from typing import Final

from uvicorn.protocols.http.flow_control import FlowControl

_AT_ONCE: Final = 4
"""How many connections with large bodies are read in one round of the event loop: about a
millisecond in all.
"""


class Turns:
    """Has connections wait for their turn to be read."""

    def __init__(self) -> None:
        self._waiting: deque[TurnFlow] = deque()

    def put(self, flow: "TurnFlow") -> None:
        """Let a connection be read when those before it have been."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        self._waiting.append(flow)

    def _next(self) -> None:
        for _ in range(min(_AT_ONCE, len(self._waiting))):
            self._waiting.popleft().read()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)


class TurnFlow(FlowControl):
    """uvicorn's flow control, whose reading goes on in its turn while the body is large."""

    def __init__(self, transport: asyncio.Transport, turns: Turns) -> None:
        super().__init__(transport)
        self._turns = turns
        self._waits = False
        self.large = False
        """Whether the body that is read is a large one."""
        self.ended = False
        """Whether nothing is to be read any more."""

    def resume_reading(self) -> None:
        """Read on, in turn when the body is large."""
        if not self.read_paused or self._waits or self.ended:
            return
        if self.large:
            self._waits = True
            self._turns.put(self)
        else:
            super().resume_reading()

    def read(self) -> None:
        """Read on now."""
        self._waits = False
        if not self.ended and not self._transport.is_closing():
            super().resume_reading()
