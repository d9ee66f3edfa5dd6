"""Reconciler that replaces replicas that lost a host, for RayClusters with repair enabled."""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Sequence
from math import inf
from time import time
from typing import Final, Protocol

from msgspec import Struct, field

from webhook.controller.failures import kind_of, log_failure, reason_of
from webhook.controller.repair.plan import (
    DUPLICATE,
    Limits,
    Memory,
    plan,
)
from webhook.controller.repair.repair_model import (
    EMPTY,
    Action,
    Delete,
    Group,
    Unmark,
)
from webhook.controller.repair.repair_records import Records
from webhook.controller.repair.repair_store import RepairStore
from webhook.diagnostics.tracker import NOTE_MAX, EventRequest, Key
from webhook.groups.group_config import ClusterIndex, RayClusterConfig
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Clock

_log: Final = logging.getLogger("webhook.controller")
EVERY: Final = 5.0
"""The period between two checks, in seconds."""
_CHECK_EVERY: Final = 60.0
"""The period between two reads of the tenant policy, in seconds."""
RECORDS: Final = "the records"
POLICY: Final = "the policy for tenants"
"""Parts of a check that concern all RayClusters, as failures name them."""
UNPROTECTED: Final = "unprotected"
"""The reason of a failure: the policy is absent, or does not deny."""
_ROUNDS: Final = 3
"""Reconciliations of one RayCluster in a row: pods marked in one are deleted in the next."""
_OVERTAKEN: Final = frozenset({"conflict", "missing"})
"""Failures that mean that the pod has changed, which the next reconciliation observes."""

REPLACED: Final = "ReplicaReplaced"
DUPLICATED: Final = "DuplicateDeleted"
"""Reasons of events."""

Place = tuple[str, str]
"""The uid of a RayCluster, and the name of a worker group."""


class State(Protocol):
    """The object store."""

    @property
    def synced(self) -> bool:
        """Whether RayClusters and pods were listed."""


class Events(Protocol):
    """Writer of events on RayClusters."""

    async def record(self, notices: Iterable[EventRequest], now: float) -> None:
        """Write events. A failed write is retried with the next call."""


class RepairCounters(Struct):
    """Counters since the start, for metrics."""

    deleted: dict[str, int] = field(default_factory=dict)
    """Pods, by reason."""
    failures: dict[str, int] = field(default_factory=dict)
    """By reason."""


class RepairReconciler:
    """Reconciles every few seconds. A failure of one RayCluster does not block the others."""

    def __init__(
        self,
        state: State,
        clusters: ClusterIndex,
        store: RepairStore,
        events: Events,
        limits: Limits,
        world: Clock | None = None,
    ) -> None:
        self.counters = RepairCounters()
        self.waiting: dict[Place, dict[str, str]] = {}
        """By group, the broken replicas that are not replaced, each with the reason."""
        self._state = state
        self._clusters = clusters
        self._store = store
        self._events = events
        self._limits = limits
        self._world = world or Clock()
        self._memories: dict[Place, Memory] = {}
        self._trouble: dict[str, str] = {}
        self._check_at = -inf
        self._allowed = False
        self._obstacle = ""

    async def run(self) -> None:
        """Reconcile until cancelled, with records that are read again and an empty memory: a broken
        replica is replaced after the full delay again.
        """
        self._memories.clear()
        self._store.records.forget()
        while True:
            if self._state.synced and await self._protected():
                await self._round()
            await self._world.sleep(EVERY)

    async def _protected(self) -> bool:
        """Return whether the tenant policy is in force, checked once a minute: without the policy,
        anyone who can create pods can create one that counts as a host.
        """
        now = self._world.clock()
        if now >= self._check_at:
            self._check_at = now + _CHECK_EVERY
            self._allowed = False
            await self._attempt(POLICY, POLICY, self._check())
        return self._allowed

    async def _check(self) -> None:
        """Record whether repair is allowed, and log a change. Raises ApiError."""
        obstacle = await self._store.unprotected()
        self._allowed = not obstacle
        if obstacle:
            count = self.counters.failures.get(UNPROTECTED, 0)
            self.counters.failures[UNPROTECTED] = count + 1
        if obstacle and obstacle != self._obstacle:
            text = (
                "repair is off: %s, so everybody who may create pods could make one that counts as "
                "a host. Apply it: kubectl apply -k manifests/policies/tenants"
            )
            _log.error(text, obstacle)
        elif self._obstacle and not obstacle:
            _log.info("repair is on: the policy for tenants is in force")
        self._obstacle = obstacle

    async def _round(self) -> None:
        asked = [facts for facts in self._clusters if facts.repair or facts.restart]
        uids = {facts.uid for facts in asked}
        for kept in (self._memories, self.waiting):
            for place in [place for place in kept if place[0] not in uids]:
                del kept[place]
        known = {*uids, RECORDS, POLICY}
        self._trouble = {key: kind for key, kind in self._trouble.items() if key in known}
        await self._attempt(RECORDS, RECORDS, self._store.records.prune(uids))
        for facts in asked:
            name = f"RayCluster {facts.namespace}/{facts.name}"
            await self._attempt(facts.uid, name, self._repair(facts))

    async def _attempt(self, key: str, name: str, work: Awaitable[None]) -> None:
        """Count a failure and log it if new; the other steps continue."""
        try:
            await work
        # Includes our own bugs, so that one RayCluster does not block the others
        except Exception as error:  # noqa: BLE001
            reason, kind = reason_of(error), kind_of(error)
            self.counters.failures[reason] = self.counters.failures.get(reason, 0) + 1
            if self._trouble.get(key) != kind:
                self._trouble[key] = kind
                log_failure(error, "repair: %s: %s (%s); trying again", name)
        else:
            self._trouble.pop(key, None)

    async def _repair(self, facts: RayClusterConfig) -> None:
        """Reconcile until no action is left. Raises ApiError."""
        for _ in range(_ROUNDS):
            done = False
            groups = await self._store.groups(facts)
            for name, group in groups.items():
                records = await self._store.records.of(facts.uid)
                kept = {each: record for each, record in records.items() if each in groups}
                done |= await self._act(facts, name, group, kept)
            if not done:
                return

    async def _act(
        self, facts: RayClusterConfig, name: str, group: Group, records: Records
    ) -> bool:
        """Record and perform the plan of a group, and return whether more actions may be due at
        once.

        An action is performed only after its record is written. Raises ApiError.
        """
        place = facts.uid, name
        memory = self._memories.setdefault(place, Memory())
        record = records.get(name, EMPTY)
        found = plan(group, record, memory, self._limits, self._world.clock(), time())
        self._say(facts, name, self.waiting.get(place, {}), found.waiting)
        self.waiting[place] = found.waiting
        if found.record != record:
            await self._store.records.write(facts.uid, {**records, name: found.record})
        deletions = [action for action in found.actions if isinstance(action, Delete)]
        for action in found.actions:
            if not isinstance(action, Delete):
                await self._perform(facts, action)
        await self._delete(facts, name, deletions)
        return any(not isinstance(action, Unmark) for action in found.actions)

    async def _delete(self, facts: RayClusterConfig, group: str, actions: Sequence[Delete]) -> None:
        """Delete pods concurrently, and report the deleted ones: KubeRay replaces a pod as soon as
        it is deleted, and the index of a replica is free once all its pods are being deleted.
        Raises ApiError.
        """
        results = await asyncio.gather(
            *(self._perform(facts, action) for action in actions), return_exceptions=True
        )
        deleted: dict[tuple[str, str], list[str]] = {}
        for action, done in zip(actions, results, strict=True):
            if done is True:
                replica = action.host.seat.name
                deleted.setdefault((replica, action.reason), []).append(action.host.name)
        if deleted:
            notices = [_notice(facts, group, *each, pods) for each, pods in deleted.items()]
            await self._events.record(notices, time())
        for error in results:
            if isinstance(error, BaseException):
                raise error

    async def _perform(self, facts: RayClusterConfig, action: Action) -> bool:
        """Perform an action, and return whether it succeeded: False on a conflict."""
        try:
            await self._store.perform(facts, action)
        except ApiError as error:
            if error.reason not in _OVERTAKEN:
                raise
            return False
        if isinstance(action, Delete):
            reason = action.reason
            self.counters.deleted[reason] = self.counters.deleted.get(reason, 0) + 1
            text = "repair: deleted pod %s/%s of replica %s: %s"
            host = action.host
            _log.warning(text, facts.namespace, host.name, host.seat.name, reason)
        return True

    def _say(
        self, facts: RayClusterConfig, group: str, before: dict[str, str], now: dict[str, str]
    ) -> None:
        """Log the reason why a broken replica is not replaced, if the reason is new."""
        for replica, why in now.items():
            if before.get(replica) != why:
                text = "repair: replica %s of group %s of RayCluster %s/%s is broken, and waits: %s"
                _log.info(text, replica, group, facts.namespace, facts.name, why)


def _notice(
    facts: RayClusterConfig, group: str, replica: str, reason: str, pods: list[str]
) -> EventRequest:
    """Return the event on a RayCluster for a replica whose pods were deleted."""
    names = ", ".join(pods)
    kind, text = REPLACED, f"replica {replica} is replaced, {reason}: deleted {names}"
    if reason == DUPLICATE:
        kind = DUPLICATED
        text = f"replica {replica} is complete without {names}: deleted, {reason}"
    key = Key(facts.uid, (group, replica), kind)
    return EventRequest(key, "Warning", facts.namespace, facts.name, text[:NOTE_MAX])
