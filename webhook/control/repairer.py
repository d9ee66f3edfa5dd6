"""The repairer: replaces replicas that lost a host, where their RayCluster asks for repair."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from time import time
from typing import Final, Protocol

from msgspec import Struct, field

from webhook.control.failures import kind_of, reason_of, tell
from webhook.control.repair_store import RepairStore
from webhook.follow.errors import ApiError
from webhook.follow.timing import World
from webhook.groups.clusters import ClusterFacts, ClusterIndex
from webhook.repair.model import Action, Delete, Group, Note, Seal
from webhook.repair.plan import Limits, Memory, plan
from webhook.status.tracker import NOTE_MAX, Key, Notice

_log: Final = logging.getLogger("webhook.control")
EVERY: Final = 5.0
"""Seconds between two looks."""
_ROUNDS: Final = 3
"""Looks at one RayCluster in a row: what was marked is deleted at the next."""
_OVERTAKEN: Final = frozenset({"conflict", "missing"})
"""Failures that mean that the pod is another by now, which the next look shows."""

REPLACED: Final = "ReplicaReplaced"
"""The reason of the event."""

Place = tuple[str, str]
"""The uid of a RayCluster, and the name of a worker group."""


class State(Protocol):
    """Who knows whether RayClusters are known."""

    def synced(self) -> bool:
        """Tell whether they were listed."""


class Events(Protocol):
    """Who tells RayClusters."""

    async def record(self, notices: Iterable[Notice], now: float) -> None:
        """Write events. What cannot be written is tried again with the next."""


class RepairCounters(Struct):
    """What was done since the start, for metrics."""

    deleted: dict[str, int] = field(default_factory=dict)
    """Pods, by reason."""
    failures: dict[str, int] = field(default_factory=dict)
    """By reason."""


class Repairer:
    """Looks every few seconds. What fails for one RayCluster does not keep the others."""

    def __init__(
        self,
        state: State,
        clusters: ClusterIndex,
        store: RepairStore,
        events: Events,
        limits: Limits,
        world: World | None = None,
    ) -> None:
        self.counters = RepairCounters()
        self.waiting: dict[Place, dict[str, str]] = {}
        """Of each group, the broken replicas that are left as they are, and why."""
        self._state = state
        self._clusters = clusters
        self._store = store
        self._events = events
        self._limits = limits
        self._world = world or World()
        self._memories: dict[Place, Memory] = {}
        self._trouble: dict[str, str] = {}

    async def run(self) -> None:
        """Look until cancelled. It begins with an empty memory: what is broken waits its full
        time again, and the budget is what the head pods say.
        """
        self._memories.clear()
        while True:
            if self._state.synced():
                await self._round()
            await self._world.sleep(EVERY)

    async def _round(self) -> None:
        asked = [facts for facts in self._clusters if facts.repair or facts.restart]
        uids = {facts.uid for facts in asked}
        for kept in (self._memories, self.waiting):
            for place in [place for place in kept if place[0] not in uids]:
                del kept[place]
        self._trouble = {uid: kind for uid, kind in self._trouble.items() if uid in uids}
        for facts in asked:
            try:
                await self._repair(facts)
            # Also our own bug, which one RayCluster brings out: the others are looked at as well
            except Exception as error:  # noqa: BLE001
                self._failed(facts, error)
            else:
                self._trouble.pop(facts.uid, None)

    async def _repair(self, facts: ClusterFacts) -> None:
        """Look and act, until nothing is left to do at once. Raises ApiError."""
        for _ in range(_ROUNDS):
            done = False
            for name, group in (await self._store.groups(facts)).items():
                done |= await self._act(facts, name, group)
            if not done:
                return

    async def _act(self, facts: ClusterFacts, name: str, group: Group) -> bool:
        """Do what is planned for a group, and tell whether more may be due at once."""
        place = facts.uid, name
        memory = self._memories.setdefault(place, Memory())
        found = plan(group, memory, self._limits, self._world.clock(), time())
        self._say(facts, name, self.waiting.get(place, {}), found.waiting)
        self.waiting[place] = found.waiting
        for action in found.actions:
            if isinstance(action, Delete):
                continue
            if not await self._perform(facts, action) and isinstance(action, Note):
                return True  # what is not noted is not in the budget
        await self._delete(facts, name, [each for each in found.actions if type(each) is Delete])
        return any(not isinstance(action, Delete | Seal) for action in found.actions)

    async def _delete(self, facts: ClusterFacts, group: str, actions: Sequence[Delete]) -> None:
        """Delete pods at once, and tell of those that were: KubeRay replaces the first one that is
        gone, and the index of a replica is free when all are on their way. Raises ApiError.
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

    async def _perform(self, facts: ClusterFacts, action: Action) -> bool:
        """Do one thing, and tell whether it was done; not where somebody else was faster."""
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
        self, facts: ClusterFacts, group: str, before: dict[str, str], now: dict[str, str]
    ) -> None:
        """Log why a broken replica is left as it is, when that is new."""
        for replica, why in now.items():
            if before.get(replica) != why:
                text = "repair: replica %s of group %s of RayCluster %s/%s is broken, and waits: %s"
                _log.info(text, replica, group, facts.namespace, facts.name, why)

    def _failed(self, facts: ClusterFacts, error: Exception) -> None:
        """Count a failure, and say so when it is new."""
        reason, kind = reason_of(error), kind_of(error)
        self.counters.failures[reason] = self.counters.failures.get(reason, 0) + 1
        if self._trouble.get(facts.uid) != kind:
            self._trouble[facts.uid] = kind
            text = "repair: RayCluster %s/%s: %s (%s); trying again"
            tell(error, text, facts.namespace, facts.name)


def _notice(facts: ClusterFacts, group: str, replica: str, reason: str, pods: list[str]) -> Notice:
    """Return what a RayCluster is told of a replica whose pods were deleted."""
    note = f"replica {replica} is replaced, {reason}: deleted {', '.join(pods)}"[:NOTE_MAX]
    key = Key(facts.uid, (group, replica), REPLACED)
    return Notice(key, "Warning", facts.namespace, facts.name, note)
