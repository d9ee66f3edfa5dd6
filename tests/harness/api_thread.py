"""A fake API server in a separate thread."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from tests.harness.fake_api import FakeApi
from tests.harness.scenes import Object, Scene

_SECONDS: Final = 60.0


class Cluster:
    """A fake API server whose objects a test changes from outside of its event loop."""

    def __init__(self) -> None:
        self.api = FakeApi(served={"v1beta1"})
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def put(self, resource: str, found: Object) -> None:
        self.done(lambda: self.api.put(resource, found))

    def delete(self, resource: str, name: str, namespace: str = "team") -> None:
        self.done(lambda: self.api.delete(resource, name, namespace))

    def store(self, scene: Scene) -> None:
        self.done(lambda: self.api.store(scene.resources))

    def done(self, change: Callable[[], object]) -> None:
        async def run() -> None:
            change()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(_SECONDS)

    @contextmanager
    def serving(self) -> Iterator["Cluster"]:
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.api.up(), self._loop).result(_SECONDS)
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self.api.down(), self._loop).result(_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
