"""The thread in which large bodies are decoded and checked, beside the event loop."""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_SWITCH_SECONDS: Final = 0.0002
"""After this time the interpreter passes from one thread to another that is ready. The event loop
waits as long each time that it has read, decrypted or sent; with Python's 5 ms, a small review
beside a large one takes tens of milliseconds.
"""


class ReviewThread:
    """One thread that is started with its first call. Calls wait in order. A call whose caller is
    cancelled is not started, or its result is dropped.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(
            1, "large-reviews", sys.setswitchinterval, (_SWITCH_SECONDS,)
        )

    def __call__(self, function: Callable[[*Ts], T], *arguments: *Ts) -> asyncio.Future[T]:
        """Return the future result of a function that changes nothing that others can see."""
        return asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
