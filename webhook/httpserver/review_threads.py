"""Threads for the work of reviews that is too long for the event loop, in turns between clients and
namespaces.
"""

import asyncio
import re
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

WAITING_MAX: Final = 32
"""Reviews of one namespace, sent by one client, that may wait for a thread."""

_LARGE: Final = 128 * 1024
"""Bytes of a body. Larger ones have a thread of their own, so that smaller ones never wait for
them.
"""

_SWITCH_SECONDS: Final = 0.0002
"""After this time the interpreter switches to another thread that is ready. The event loop waits
that long after each read, decryption or write; with Python's default of 5 ms, a small review
concurrent with a large one takes tens of milliseconds.
"""

_HEAD: Final = 4096
_NAMESPACE: Final = re.compile(rb'"namespace"\s*:\s*"([a-z0-9.-]{1,253})"')


class QueueFull(Exception):  # noqa: N818 - named for what it is
    """Too many reviews of a namespace wait already."""


def namespace_of(body: bytes) -> str:
    """Return the namespace of a review for its turn, or an empty text.

    kube-apiserver writes it before the object. In a forged body it may be any text: turns are first
    between clients, and a client can only forge its own.
    """
    match = _NAMESPACE.search(body, 0, _HEAD)
    return match[1].decode() if match else ""


class ReviewThreads:
    """Calls functions in one of two threads, by the size of the body. Among the calls that wait,
    clients take turns, and among those of a client the namespaces.
    """

    def __init__(self) -> None:
        self._small, self._large = _Turns("reviews"), _Turns("large-reviews")

    async def run(self) -> None:
        """Wait until cancelled, and end the threads."""
        try:
            await asyncio.Event().wait()
        finally:
            self._small.close()
            self._large.close()

    def __call__(
        self, client: str, body: bytes, function: Callable[[bytes, *Ts], T], *arguments: *Ts
    ) -> asyncio.Future[T]:
        """Return the future result of a function of `body` without side effects. Raises QueueFull.

        If its caller is cancelled, the call is not started, or its result is dropped.
        """
        turns = self._small if len(body) <= _LARGE else self._large
        return turns.add(client, namespace_of(body), partial(function, body, *arguments))


class _Turns:
    """One thread, started with its first call, and the calls that wait for it."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, name, sys.setswitchinterval, (_SWITCH_SECONDS,))
        self._waiting: dict[str, dict[str, deque[_Call]]] = {}
        self._busy = False

    def add(self, client: str, namespace: str, function: Callable[[], T]) -> asyncio.Future[T]:
        namespaces = self._waiting.setdefault(client, {})
        calls = namespaces.setdefault(namespace, deque())
        if len(calls) >= WAITING_MAX:
            raise QueueFull(
                f"{len(calls)} reviews of namespace {namespace or 'unknown'} wait before this one; "
                "try again"
            )
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        calls.append((future, function))
        if not self._busy:
            self._start_next()
        return future

    def close(self) -> None:
        """Start no call any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start_next(self) -> None:
        while (call := self._take()) is not None:
            future, function = call
            if future.done():  # the caller was cancelled
                continue
            self._busy = True
            running = asyncio.get_running_loop().run_in_executor(self._pool, function)
            running.add_done_callback(partial(self._finish, future))
            return
        self._busy = False

    def _take(self) -> "_Call | None":
        """Return the next call, and move its client and namespace to the end."""
        if not self._waiting:
            return None
        client = next(iter(self._waiting))
        namespaces = self._waiting.pop(client)
        namespace = next(iter(namespaces))
        calls = namespaces.pop(namespace)
        call = calls.popleft()
        if calls:
            namespaces[namespace] = calls
        if namespaces:
            self._waiting[client] = namespaces
        return call

    def _finish(self, future: asyncio.Future[Any], running: asyncio.Future[Any]) -> None:
        if running.cancelled():  # the process stops
            future.cancel()
            return
        if not future.done():
            error = running.exception()
            if error is None:
                future.set_result(running.result())
            else:
                future.set_exception(error)
        self._start_next()


_Call = tuple[asyncio.Future[Any], Callable[[], Any]]
