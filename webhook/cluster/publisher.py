"""The publisher: keeps the Workloads and PodGroups of RayClusters as they should be. Any number of processes may run one."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from webhook.cluster.course import Course, new_course
from webhook.cluster.dialect import DIALECTS, POD_GROUPS, WORKLOADS, resource_of
from webhook.cluster.errors import ApiError
from webhook.cluster.groupstore import GroupStore, Place
from webhook.cluster.pace import Backoff, PublishingPace, World
from webhook.cluster.state import ClusterState
from webhook.groups.clusters import ClusterFacts, ClusterIndex
from webhook.groups.lifecycle import Action, Create, Delete, Observed, decide, strangers, waits
from webhook.groups.membership import Membership
from webhook.groups.podgroups import Occupied, Wish, occupied, wish_of

_log: Final = logging.getLogger("webhook.cluster")
_SLOTS: Final = 8
"""RayClusters that are worked on at the same time."""
_ROUNDS: Final = 6
"""Looks at a RayCluster's objects in a row, each after something was done; the longest way needs five."""
_OVERTAKEN: Final = frozenset({"conflict", "missing"})
"""Failures that mean that the object is another by now: look again."""
_REFUSED: Final = frozenset({"forbidden", "invalid", "status"})
"""Failures of one object, which say nothing about the next one."""
_VERBS: Final = {"Create": "created", "Delete": "deleted", "Resize": "patched", "Label": "patched", "Release": "patched"}


class PublishCounters(Struct):
    """What the publisher has done since the start, for metrics."""

    done: dict[tuple[str, str], int] = field(
        default_factory=lambda: {(kind, verb): 0 for kind in (WORKLOADS, POD_GROUPS) for verb in ("created", "patched", "deleted")}
    )
    """By resource and verb."""
    failures: dict[str, int] = field(default_factory=dict)
    """By reason."""


class Publisher:
    """Follows the cluster index and the membership that a cluster state keeps, from when both are in step.

    It does nothing until `serve` has named a version of the API. What fails for one RayCluster is tried again later, and
    does not keep the others.
    """

    def __init__(
        self,
        state: ClusterState,
        clusters: ClusterIndex,
        members: Membership,
        pace: PublishingPace | None = None,
        world: World | None = None,
    ) -> None:
        self.counters = PublishCounters()
        self._state = state
        self._clusters = clusters
        self._members = members
        self._pace = pace or PublishingPace()
        self._world = world or World()
        self._store: GroupStore | None = None
        self._courses: dict[Place, Course] = {}
        self._slots = asyncio.Semaphore(_SLOTS)
        self._sweeping = False
        self._sweep_at = 0.0
        self._sweeps = Backoff(self._pace.first_delay, self._pace.longest_delay, self._world.random)
        self._outage = ""

    @property
    def taken_names(self) -> int:
        """The number of names that are wanted, but that objects of others have."""
        return sum(len(course.strangers) for course in self._courses.values())

    def serve(self, version: str | None) -> None:
        """Speak this version of the API from now on, or be silent."""
        self._store = GroupStore(self._state.api, DIALECTS[version]) if version else None
        self._sweep_at = 0.0
        for course in self._courses.values():
            course.settled = None

    async def run(self) -> None:
        """Publish until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                if self._store is not None and self._state.synced():
                    self._tick(self._store, tasks)
                await self._world.sleep(self._pace.poll)

    def _tick(self, store: GroupStore, tasks: asyncio.TaskGroup) -> None:
        """Start what is due."""
        now = self._world.clock()
        self._members.expire(now)
        if now >= self._sweep_at and not self._sweeping:
            self._sweeping = True
            tasks.create_task(self._sweep(store))
        for course, facts in self._current():
            taken = occupied(facts, self._members)
            if course.due(facts, taken, now):
                course.running = True
                tasks.create_task(self._converge(store, course, facts, taken))

    def _current(self) -> Iterator[tuple[Course, ClusterFacts]]:
        """Yield the RayClusters that want scheduling groups or may have some, and forget those that are gone or left alone."""
        for facts in self._clusters:
            if facts.gang.active and not _left_alone(facts) and (facts.namespace, facts.name) not in self._courses:
                self._begin((facts.namespace, facts.name))
        for place, course in [*self._courses.items()]:
            known = self._clusters.get(*place)
            if known is not None and not _left_alone(known) and not course.over(known):
                yield course, known
            elif not course.running:
                del self._courses[place]

    def _begin(self, place: Place) -> Course:
        course = self._courses.get(place)
        if course is None:
            course = self._courses[place] = new_course(self._pace, self._world)
        return course

    async def _sweep(self, store: GroupStore) -> None:
        """List everything that we made, and let RayClusters be worked on where it is not as it should be.

        Objects whose RayCluster is not known are left to garbage collection.
        """
        try:
            found: dict[Place, Observed] = {}
            for namespace in self._state.feeds:
                found |= await store.all(namespace)
        except ApiError as error:
            self._count(error)
            self._hear(error, "what was made for RayClusters cannot be listed")
            self._sweep_at = self._world.clock() + self._sweeps.next(error.retry_after or 0.0)
        else:
            self._outage = ""
            self._sweeps.reset()
            self._sweep_at = self._world.clock() + self._pace.sweep
            for place in {*found, *self._courses}:
                self._compare(store, place, found.get(place, Observed()))
        finally:
            self._sweeping = False

    def _compare(self, store: GroupStore, place: Place, observed: Observed) -> None:
        """Let a RayCluster be worked on when its objects are not as they should be."""
        facts = self._clusters.get(*place)
        if facts is None or _left_alone(facts):
            return
        wish = wish_of(facts, occupied(facts, self._members))
        actions = decide(wish, observed, resizable=store.dialect.resizable, live=wish.live)
        if actions or waits(wish, observed):
            self._begin(place).settled = None

    async def _converge(self, store: GroupStore, course: Course, facts: ClusterFacts, taken: Occupied) -> None:
        """Bring about what a RayCluster wants, or note why it cannot be done yet."""
        try:
            async with self._slots:
                missing = await self._bring_about(store, course, facts, wish_of(facts, taken))
        except ApiError as error:
            self._failed(course, facts, error)
        else:
            if course.trouble:
                course.trouble = ""
                _log.info("scheduling groups of RayCluster %s/%s: as they should be again", facts.namespace, facts.name)
            course.reached((facts, taken), self._world.clock(), waits=missing)
        finally:
            course.running = False

    async def _bring_about(self, store: GroupStore, course: Course, facts: ClusterFacts, wish: Wish) -> bool:
        """Look and act until there is nothing left to do, and tell whether something is still missing. Raises ApiError."""
        for _ in range(_ROUNDS):
            observed = await store.of(facts, sorted(course.names))
            course.names &= {(resource_of(seen), seen.identity.name) for seen in observed.all}
            self._report(course, facts, tuple(strangers(wish, observed)))
            actions = await self._decide(store, facts, wish, observed)
            if not actions:
                return waits(wish, observed)
            await self._perform(store, course, facts, actions)
        raise ApiError("conflict", "the objects are changed as fast as they are put right: does another program make them too?")

    async def _decide(self, store: GroupStore, facts: ClusterFacts, wish: Wish, observed: Observed) -> list[Action]:
        """Return what to do. Whether the head lives is only asked where something depends on it."""
        resizable = store.dialect.resizable
        careful = decide(wish, observed, resizable=resizable, live=wish.live | wish.heads)
        bold = decide(wish, observed, resizable=resizable, live=wish.live)
        return careful if careful == bold or await store.has_head(facts) else bold

    async def _perform(self, store: GroupStore, course: Course, facts: ClusterFacts, actions: list[Action]) -> None:
        """Do it all. Raises ApiError: at once when the API server is in trouble, else the first refusal, after all the rest."""
        refusal: ApiError | None = None
        for action in actions:
            resource = resource_of(action.wanted if isinstance(action, Create) else action.seen)
            try:
                await store.perform(facts, action)
            except ApiError as error:
                if error.reason not in _OVERTAKEN | _REFUSED:
                    raise
                if error.reason in _REFUSED and refusal is None:
                    refusal = error
                    continue
                self._count(error)
                if error.reason in _OVERTAKEN and isinstance(action, Create):
                    course.names.add((resource, action.wanted.name))
            else:
                key = resource, _VERBS[type(action).__name__]
                self.counters.done[key] += 1
                if isinstance(action, Delete):
                    course.names.discard((resource, action.seen.identity.name))
        if refusal is not None:
            raise refusal

    def _report(self, course: Course, facts: ClusterFacts, names: tuple[str, ...]) -> None:
        if names and names != course.strangers:
            text = "scheduling groups of RayCluster %s/%s: %s exist already and are not its own; delete or rename them"
            _log.warning(text, facts.namespace, facts.name, ", ".join(names))
        course.strangers = names

    def _failed(self, course: Course, facts: ClusterFacts, error: ApiError) -> None:
        """Note a failure; say so when it is a new one."""
        self._count(error)
        own = error.reason in _OVERTAKEN | _REFUSED
        course.failed(self._world.clock(), error.retry_after or 0.0, facts if own else None)
        if not own:
            self._hear(error, "the API server is in trouble")
        elif course.trouble != str(error):
            course.trouble = str(error)
            _log.warning("scheduling groups of RayCluster %s/%s: %s (%s)", facts.namespace, facts.name, error, error.reason)

    def _hear(self, error: ApiError, what: str) -> None:
        """Say once that something is wrong which is not one RayCluster's."""
        if self._outage != error.reason:
            self._outage = error.reason
            _log.warning("scheduling groups: %s: %s (%s); asking again with growing delays", what, error, error.reason)

    def _count(self, error: ApiError) -> None:
        self.counters.failures[error.reason] = self.counters.failures.get(error.reason, 0) + 1


def _left_alone(facts: ClusterFacts) -> bool:
    """Tell whether nothing is done for a RayCluster: it says so, or it is being deleted and its objects with it."""
    return facts.ignored or facts.deleting
