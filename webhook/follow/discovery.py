"""Discovery: which version of the API for PodGroups the API server serves, if any; an upgrade or a feature gate may change it."""

import logging
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from webhook.follow.client import Api
from webhook.follow.errors import ApiError, Garbled
from webhook.follow.timing import Backoff, World
from webhook.kube import names

VERSIONS: Final = ("v1beta1", "v1alpha2")
"""The best first: Kubernetes 1.37 serves the one, 1.36 the other, each only with the feature gate GenericWorkload."""

Listener = Callable[[str | None], None]
"""Is told the version that is served, None for none."""

_log: Final = logging.getLogger("webhook.follow")
_SECONDS: Final = 10.0
"""Deadline of a question."""
_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 5.0
"""Delays after failures: the service is not ready before the first answer."""
_NEEDED: Final = frozenset({"podgroups", "workloads"})


class _Resource(Struct):
    name: str = ""


class _Resources(Struct):
    resources: list[_Resource] | None = None


class Discovery:
    """Asks again and again, and tells its listeners of the first answer and of each change. An outage changes nothing.

    `served` is the version, `answered` whether it is known: a condition of readiness, as a pod whose scheduling group is
    forgotten is not scheduled in its gang. No rights beyond those of every account are needed; an account that lacks even
    these is told so, and PodGroups count as not served.
    """

    def __init__(self, api: Api, seconds: float, world: World | None = None) -> None:
        self.served: str | None = None
        self.answered = False
        self._api = api
        self._seconds = seconds
        self._world = world or World()
        self._backoff = Backoff(min(_FIRST_DELAY, seconds), min(_LONGEST_DELAY, seconds), self._world.random)
        self._listeners: list[Listener] = []
        self._trouble = ""

    def subscribe(self, listener: Listener) -> None:
        """Tell `listener` of answers to come, and of the one there is."""
        self._listeners.append(listener)
        if self.answered:
            listener(self.served)

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self._world.sleep(await self._pause())

    async def _pause(self) -> float:
        """Ask once, and return how long to wait before the next time."""
        try:
            served = await self._ask()
        except ApiError as error:
            if error.reason != self._trouble:
                self._trouble = error.reason
                _log.warning("PodGroups: whether they are served is not known: %s (%s)", error, error.reason)
            if error.reason == "forbidden" and not self.answered:
                self._take(None)
            return self._backoff.next(error.retry_after or 0.0)
        self._trouble = ""
        self._backoff.reset()
        if not self.answered or served != self.served:
            self._take(served)
        return self._seconds

    def _take(self, served: str | None) -> None:
        """Believe an answer, and pass it on."""
        what = f"{names.SCHEDULING_GROUP}/{served} is" if served else "PodGroups are not"
        _log.info("%s served by the API server%s", what, "" if not self.answered else ", which is new")
        self.served, self.answered = served, True
        for listener in self._listeners:
            listener(served)

    async def _ask(self) -> str | None:
        """Return the version that is served. Raises ApiError."""
        for version in VERSIONS:
            try:
                body = await self._api.get(f"/apis/{names.SCHEDULING_GROUP}/{version}", (), _SECONDS)
            except ApiError as error:
                if error.reason == "missing":
                    continue
                raise
            if {resource.name for resource in _decode(body)} >= _NEEDED:
                return version
        return None


def _decode(body: bytes) -> list[_Resource]:
    try:
        return msgspec.json.decode(body, type=_Resources).resources or []
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Garbled("garbled", "the API server sent no list of resources: is a proxy in between?") from error
