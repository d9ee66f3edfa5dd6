"""Reconciler of the Workloads and PodGroups, or the ComputeDomains, of RayClusters. Several
processes may run it at the same time.

See docs/contributing/decisions/0016-publishing-scheduling-groups.md.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, field

from webhook.cache.cluster_cache import Observing
from webhook.controller.failures import log_failure, pause_of, reason_of
from webhook.controller.group_index import GroupIndex
from webhook.controller.podgroups.lifecycle import (
    Action,
    Actual,
    Create,
    Delete,
    decide,
    foreign,
    waits,
)
from webhook.controller.podgroups.podgroup_api import (
    POD_GROUPS,
    VERSIONS,
    WORKLOADS,
    resource_of,
)
from webhook.controller.podgroups.podgroup_store import Place, PodGroupStore
from webhook.controller.podgroups.reconcile_state import ReconcileState, new_state
from webhook.diagnostics.internal_errors import UNEXPECTED
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.pod_groups import (
    Desired,
    Occupied,
    desired_of,
    occupied,
)
from webhook.kubeclient.client import Api
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Backoff, Clock, PublishingTiming

_log: Final = logging.getLogger("webhook.controller")
_SLOTS: Final = 8
"""RayClusters that are reconciled concurrently."""
_ROUNDS: Final = 6
"""Reconciliations of a RayCluster in a row; the longest sequence needs five."""
_OVERTAKEN: Final = frozenset({"conflict", "missing"})
"""Failures that mean that the object has changed: reconcile again."""
_REFUSED: Final = frozenset({"forbidden", "invalid", "status"})
"""Failures of one object, unrelated to other objects."""
_OWN: Final = _OVERTAKEN | _REFUSED | {UNEXPECTED}
"""Failures of one RayCluster, unrelated to other RayClusters."""
_VERBS: Final = {
    "Create": "created",
    "Delete": "deleted",
    "Resize": "patched",
    "Label": "patched",
    "Release": "patched",
}


class PublishCounters(Struct):
    """Counters since the start, for metrics."""

    done: dict[tuple[str, str], int] = field(
        default_factory=lambda: {
            (kind, verb): 0
            for kind in (WORKLOADS, POD_GROUPS)
            for verb in ("created", "patched", "deleted")
        }
    )
    """By resource and verb."""
    failures: dict[str, int] = field(default_factory=dict)
    """By reason."""

    def fail(self, error: Exception) -> None:
        reason = reason_of(error)
        self.failures[reason] = self.failures.get(reason, 0) + 1


class _Convergence(Struct, frozen=True):
    """A reconciliation of the objects of one RayCluster."""

    store: PodGroupStore
    state: ReconcileState
    facts: RayClusterConfig
    counters: PublishCounters
    title: str

    async def reach(self, desired: Desired) -> bool:
        """Reconcile until no action is left; return whether some are missing. Raises ApiError."""
        for _ in range(_ROUNDS):
            actual = await self.store.of(self.facts, sorted(self.state.names))
            self.state.names &= {(resource_of(seen), seen.identity.name) for seen in actual.all}
            self._report(tuple(foreign(desired, actual)))
            decided = await self._decide(desired, actual)
            actions = await self.store.possible(self.facts, decided)
            if not actions:
                return bool(decided) or waits(desired, actual)
            await self._perform(actions)
        raise ApiError(
            "conflict",
            "the objects are changed as fast as they are put right: does another program make "
            "them too?",
        )

    def _report(self, names: tuple[str, ...]) -> None:
        if names and names != self.state.foreign:
            text = (
                "%s of RayCluster %s/%s: %s exist already and are not its own; delete or rename "
                "them"
            )
            place = self.facts.namespace, self.facts.name
            _log.warning(text, self.title, *place, ", ".join(names))
        self.state.foreign = names

    async def _decide(self, desired: Desired, actual: Actual) -> list[Action]:
        """Return the next actions. The head pod is only queried if an action depends on it."""
        resizable = self.store.podgroup_api.resizable
        careful = decide(desired, actual, resizable=resizable, live=desired.live | desired.heads)
        bold = decide(desired, actual, resizable=resizable, live=desired.live)
        return careful if careful == bold or await self.store.has_head(self.facts) else bold

    async def _perform(self, actions: list[Action]) -> None:
        """Perform all actions. Raises ApiError: at once if the API server failed, else the first
        refusal, after all other actions.
        """
        refusal: ApiError | None = None
        for action in actions:
            resource = resource_of(action.wanted if isinstance(action, Create) else action.seen)
            try:
                await self.store.perform(self.facts, action)
            except ApiError as error:
                if error.reason not in _OVERTAKEN | _REFUSED:
                    raise
                if error.reason in _REFUSED and refusal is None:
                    refusal = error
                    continue
                self.counters.fail(error)
                if error.reason in _OVERTAKEN and isinstance(action, Create):
                    self.state.names.add((resource, action.wanted.name))
            else:
                key = resource, _VERBS[type(action).__name__]
                self.counters.done[key] += 1
                if isinstance(action, Delete):
                    self.state.names.discard((resource, action.seen.identity.name))
        if refusal is not None:
            raise refusal


class Subject(Struct, frozen=True):
    """The kind of objects that a reconciler manages: its name in the log, the RayClusters that
    request it, the desired objects, and the store for an API version.
    """

    title: str
    asked: Callable[[RayClusterConfig], bool]
    desired: Callable[[RayClusterConfig, Occupied], Desired]
    store: Callable[[Api, str], PodGroupStore]


SCHEDULING_GROUPS: Final = Subject(
    "scheduling groups",
    lambda facts: facts.gang.active,
    desired_of,
    lambda api, version: PodGroupStore(api, VERSIONS[version]),
)


class PodGroupReconciler:
    """Reconciles RayClusters by the index of worker groups, once that is complete.

    Inactive until `serve` has set a version of the API. A failure of one RayCluster is retried and
    does not block the others.
    """

    def __init__(
        self,
        observing: Observing,
        index: GroupIndex,
        timing: PublishingTiming | None = None,
        world: Clock | None = None,
        subject: Subject = SCHEDULING_GROUPS,
    ) -> None:
        self.counters = PublishCounters()
        self._subject = subject
        self._observing = observing
        self._clusters = index.clusters
        self._members = index.members
        self._timing = timing or PublishingTiming()
        self._world = world or Clock()
        self._store: PodGroupStore | None = None
        self._states: dict[Place, ReconcileState] = {}
        self._slots = asyncio.Semaphore(_SLOTS)
        self._sweeping = False
        self._sweep_at = 0.0
        self._sweeps = Backoff(
            self._timing.first_delay, self._timing.longest_delay, self._world.random
        )
        self._outage = ""

    @property
    def taken_names(self) -> int:
        """The number of desired names that are in use by objects of other owners."""
        return sum(len(state.foreign) for state in self._states.values())

    def serve(self, version: str | None) -> None:
        """Set the version of the API; None stops reconciliation."""
        self._store = self._subject.store(self._observing.api, version) if version else None
        self._sweep_at = 0.0
        for state in self._states.values():
            state.reconciled = None

    async def run(self) -> None:
        """Reconcile until cancelled, after a resync for changes by another process."""
        self._states.clear()
        self._sweeping, self._sweep_at = False, 0.0
        async with asyncio.TaskGroup() as tasks:
            while True:
                if self._store is not None and self._observing.synced:
                    self._tick(self._store, tasks)
                await self._world.sleep(self._timing.poll)

    def _tick(self, store: PodGroupStore, tasks: asyncio.TaskGroup) -> None:
        now = self._world.clock()
        if now >= self._sweep_at and not self._sweeping:
            self._sweeping = True
            tasks.create_task(self._sweep(store))
        for state, facts in self._current():
            with self._alone(facts):
                taken = occupied(facts, self._members)
                if state.due(facts, taken, now):
                    state.running = True
                    tasks.create_task(self._converge(store, state, facts, taken))

    def _current(self) -> Iterator[tuple[ReconcileState, RayClusterConfig]]:
        """Yield the RayClusters that request objects or may own some, and drop the state of those
        that were deleted or are ignored.
        """
        asked = self._subject.asked
        for facts in self._clusters:
            if (
                asked(facts)
                and not _left_alone(facts)
                and (facts.namespace, facts.name) not in self._states
            ):
                self._begin((facts.namespace, facts.name))
        for place, state in [*self._states.items()]:
            known = self._clusters.get(*place)
            if (
                known is not None
                and not _left_alone(known)
                and (asked(known) or not state.over(known))
            ):
                yield state, known
            elif not state.running:
                del self._states[place]

    def _begin(self, place: Place) -> ReconcileState:
        state = self._states.get(place)
        if state is None:
            state = self._states[place] = new_state(self._timing, self._world)
        return state

    async def _sweep(self, store: PodGroupStore) -> None:
        """List all managed objects, and schedule the RayClusters whose objects differ from the
        desired state.

        Objects whose RayCluster does not exist are left to garbage collection.
        """
        try:
            found: dict[Place, Actual] = {}
            for namespace in self._observing.namespaces:
                found |= await store.all(namespace)
        # Includes our own bugs, so that one object does not stop the resync of the others
        except Exception as error:  # noqa: BLE001
            self.counters.fail(error)
            self._warn_once(error, "what was made for RayClusters cannot be listed")
            self._sweep_at = self._world.clock() + self._sweeps.next(pause_of(error))
        else:
            self._outage = ""
            self._sweeps.reset()
            self._sweep_at = self._world.clock() + self._timing.sweep
            for place in {*found, *self._states}:
                self._compare(store, place, found.get(place, Actual()))
        finally:
            self._sweeping = False

    def _compare(self, store: PodGroupStore, place: Place, actual: Actual) -> None:
        """Schedule a RayCluster if its objects differ from the desired state."""
        facts = self._clusters.get(*place)
        if facts is None or _left_alone(facts):
            return
        resizable = store.podgroup_api.resizable
        with self._alone(facts):
            desired = self._subject.desired(facts, occupied(facts, self._members))
            actions = decide(desired, actual, resizable=resizable, live=desired.live)
            if actions or waits(desired, actual):
                self._begin(place).reconciled = None

    async def _converge(
        self, store: PodGroupStore, state: ReconcileState, facts: RayClusterConfig, taken: Occupied
    ) -> None:
        try:
            with self._alone(facts):
                async with self._slots:
                    missing = await _Convergence(
                        store, state, facts, self.counters, self._subject.title
                    ).reach(self._subject.desired(facts, taken))
                if state.trouble:
                    state.trouble = ""
                    _log.info(
                        "%s of RayCluster %s/%s: as they should be again",
                        self._subject.title,
                        facts.namespace,
                        facts.name,
                    )
                state.record((facts, taken), self._world.clock(), waits=missing)
        finally:
            state.running = False

    @contextmanager
    def _alone(self, facts: RayClusterConfig) -> Iterator[None]:
        """Record a failure of one RayCluster, and continue with the others."""
        try:
            yield
        # Includes our own bugs
        except Exception as error:  # noqa: BLE001
            self._failed(self._begin((facts.namespace, facts.name)), facts, error)

    def _failed(self, state: ReconcileState, facts: RayClusterConfig, error: Exception) -> None:
        """Record a failure, and log it if it is new."""
        self.counters.fail(error)
        reason = reason_of(error)
        own = reason in _OWN
        state.failed(self._world.clock(), pause_of(error), facts if own else None)
        if not own:
            self._warn_once(error, "the API server is in trouble")
            return
        said = type(error).__name__ if reason == UNEXPECTED else str(error)
        if state.trouble != said:
            state.trouble = said
            text = f"{self._subject.title} of RayCluster %s/%s: %s (%s)"
            log_failure(error, text, facts.namespace, facts.name)

    def _warn_once(self, error: Exception, what: str) -> None:
        """Log once a failure that is not specific to one RayCluster."""
        if self._outage != reason_of(error):
            self._outage = reason_of(error)
            text = f"{self._subject.title}: %s: %s (%s); asking again with growing delays"
            log_failure(error, text, what)


def _left_alone(facts: RayClusterConfig) -> bool:
    """Return whether a RayCluster is ignored or being deleted (its objects with it)."""
    return facts.ignored or facts.deleting
