"""Clients that call a server all the time, as kube-apiserver does."""

import ssl
import threading
from collections.abc import Callable
from typing import Self

import httpx

from tests.harness.listener import until


class Callers:
    """Two clients that call during the block: on a kept connection, and on new ones."""

    def __init__(
        self, trust: ssl.SSLContext, call: Callable[[httpx.Client], httpx.Response]
    ) -> None:
        self.answers: list[int] = []  # two threads count: they must not overwrite each other
        self.lost: list[str] = []
        self._trust, self._call = trust, call
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=[kept]) for kept in (0, 1)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self) -> None:
        """Wait until some more requests are answered."""
        wanted = len(self.answers) + 20
        until(lambda: len(self.answers) >= wanted or self.lost != [], 20)

    def _run(self, kept: int) -> None:
        limits = httpx.Limits(max_keepalive_connections=kept)
        with httpx.Client(verify=self._trust, limits=limits, timeout=60) as client:
            while not self._stop.wait(0.005):
                try:
                    self.answers.append(self._call(client).raise_for_status().status_code)
                except httpx.HTTPError as error:
                    self.lost.append(repr(error))
