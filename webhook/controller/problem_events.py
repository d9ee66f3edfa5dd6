"""Reporter of problems: examines all objects periodically, for events on RayClusters and for
metrics.

See docs/contributing/decisions/0024-events-from-the-controller.md.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from webhook.cache.cluster_cache import Observing
from webhook.controller.event_recorder import EventCounters, EventRecorder
from webhook.controller.requests import log_failure
from webhook.controller.work_queue import Key, WorkQueue
from webhook.diagnostics.examiner import Examiner
from webhook.diagnostics.internal_errors import INSTALLATION, Bugs, named
from webhook.diagnostics.object_cache import ObjectCache
from webhook.diagnostics.tracker import Look, Tracker
from webhook.kubeclient.timeouts import QueueTiming

NOTHING: Final = Look((), (), {})
"""The report of a process that is not the leader."""
TIMING: Final = QueueTiming(resync=10.0)


class ProblemReporter:
    """Examines changed objects, and all objects at first. `last` is the last report."""

    def __init__(
        self,
        world: ObjectCache,
        observing: Observing,
        recorder: EventRecorder,
        timing: QueueTiming = TIMING,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.last = NOTHING
        self._world = world
        self._observing = observing
        self._recorder = recorder
        self._now = now
        self._timing = timing

    @property
    def counters(self) -> EventCounters:
        return self._recorder.counters

    async def run(self) -> None:
        survey, tracker, bugs = Examiner(self._world), Tracker(), Bugs()

        async def reconcile(_: Key) -> bool:
            await self._look(survey, tracker, bugs, self._observing.unread)
            return False

        try:
            await WorkQueue("events", reconcile, lambda: self._observing.listed, self._timing).run()
        finally:
            self._world.end()
            self.last = NOTHING

    async def _look(
        self, survey: Examiner, tracker: Tracker, bugs: Bugs, unread: dict[str, str]
    ) -> None:
        now = self._now()
        due: list[str] = []
        with bugs.alone(INSTALLATION):
            survey.examine_installation(now)
        with bugs.alone(INSTALLATION):
            due = survey.due(now)
        for uid in due:
            with bugs.alone(uid):
                survey.examine(uid, now)
            if why := bugs.why(uid):
                survey.fail(uid, why, now)
            await asyncio.sleep(0)  # lets probes and the Lease run between RayClusters
        with bugs.alone(INSTALLATION):
            self.last = tracker.look(survey.picture(now, None, unread))
        for error in bugs.found.values():
            self.counters.count(error)
        for uid, error in bugs.news().items():
            text = "events: %s cannot be looked at: %s (%s)"
            log_failure(error, text, named(uid, survey.world))
        await self._recorder.record(self.last.notices, now)
