"""The reporter: looks at everything again and again, for events on RayClusters and for metrics.

See docs/decisions/0024-events-from-the-controller.md.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from msgspec import Struct, field

from webhook.control.event_recorder import EventCounters, EventRecorder
from webhook.control.failures import kind_of, tell
from webhook.follow.listwatch import ListWatch
from webhook.follow.observing import Observing
from webhook.follow.timing import World as Clock
from webhook.status.survey import Survey
from webhook.status.tracker import Look, Tracker
from webhook.status.world import World

NOTHING: Final = Look((), (), {})
"""What a process knows that does not lead."""
_INSTALLATION: Final = ""
"""In place of a uid, the installation, and what all RayClusters are compared by."""


class ReportTiming(Struct, frozen=True):
    """Times of the reporter, in seconds."""

    period: float = 10.0
    """From one look to the next."""
    poll: float = 0.25
    """How often it asks whether the first lists are complete."""


class Reporter:
    """Examines what has changed in the world that it observes. `last` is what it has found.

    Each run begins with a world of its own: while another process led, nothing was followed. With
    `ignoring`, RayClusters may be left alone by their label.
    """

    def __init__(
        self,
        observe: Callable[[World], Observing],
        recorder: EventRecorder,
        timing: ReportTiming | None = None,
        clock: Clock | None = None,
        now: Callable[[], float] = time.time,
        *,
        ignoring: bool = True,
    ) -> None:
        self.last = NOTHING
        self._ignoring = ignoring
        self._observe = observe
        self._observing: Observing | None = None
        self._recorder = recorder
        self._timing = timing or ReportTiming()
        self._sleep = (clock or Clock()).sleep
        self._told: dict[str, str] = {}
        """Of what type the bugs were that the last look brought out, by uid of the RayCluster."""
        self._now = now

    @property
    def counters(self) -> EventCounters:
        """What was written."""
        return self._recorder.counters

    @property
    def watches(self) -> list[ListWatch[Any]]:
        """The list-watches, while it runs."""
        return self._observing.watches if self._observing is not None else []

    async def run(self) -> None:
        """Look until cancelled."""
        survey, tracker = Survey(World(ignoring=self._ignoring)), Tracker()
        observing = self._observing = self._observe(survey.world)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(observing.run(), name="observing")
                while not observing.listed:
                    await self._sleep(self._timing.poll)
                while True:
                    await self._look(survey, tracker, observing.unread)
                    await self._sleep(self._timing.period)
        finally:
            self.last, self._observing = NOTHING, None

    async def _look(self, survey: Survey, tracker: Tracker, unread: dict[str, str]) -> None:
        now, bugs = self._now(), _Bugs()
        due: list[str] = []
        with bugs.alone(_INSTALLATION):
            due = survey.due(now)
        for uid in due:
            with bugs.alone(uid):
                survey.examine(uid, now)
            await asyncio.sleep(0)  # the probes and the Lease do not wait for all RayClusters
        for uid in bugs.found.keys() - {_INSTALLATION}:
            survey.forget(uid)
        with bugs.alone(_INSTALLATION):
            self.last = tracker.look(survey.picture(now, None, unread))
        self._stumbled(bugs, survey.world)
        await self._recorder.record(self.last.notices, now)

    def _stumbled(self, bugs: "_Bugs", world: World) -> None:
        """Count the bugs of ours that a look brought out, and tell of those that are new."""
        for uid, error in bugs.found.items():
            self.counters.count(error)
            if self._told.get(uid) != kind_of(error):
                tell(error, "events: %s cannot be looked at: %s (%s)", _named(uid, world))
        self._told = {uid: kind_of(error) for uid, error in bugs.found.items()}


class _Bugs(Struct):
    """The bugs of ours that a look brought out, by the uid of the RayCluster that did."""

    found: dict[str, Exception] = field(default_factory=dict)

    @contextmanager
    def alone(self, uid: str) -> Iterator[None]:
        """Note a bug, and go on: other RayClusters are looked at all the same."""
        try:
            yield
        # Whatever it is: there is no failure here that is not a bug of ours
        except Exception as error:  # noqa: BLE001
            self.found[uid] = error


def _named(uid: str, world: World) -> str:
    """Return how the log names a RayCluster."""
    cluster = world.clusters.get(uid)
    if cluster is None:
        return "the installation" if uid == _INSTALLATION else f"RayCluster {uid}"
    return f"RayCluster {cluster.metadata.namespace}/{cluster.metadata.name}"
