"""Reconciler that replaces replicas that lost a host, for RayClusters with repair enabled."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import inf
from time import time
from typing import Final

from webhook.controller.repair.plan import (
    DELETE,
    DUPLICATE,
    EMPTY,
    LIMITS,
    UNMARK,
    Action,
    Memory,
    RepairGroup,
    RepairLimits,
    plan,
)
from webhook.controller.repair.repair_records import Records
from webhook.controller.repair.repair_store import RepairStore
from webhook.controller.requests import OVERTAKEN
from webhook.controller.work_queue import ALL, Key, QueueTiming, WorkQueue
from webhook.diagnostics import tracker
from webhook.diagnostics.tracker import EventRequest
from webhook.groups.group_config import ClusterIndex, RayClusterConfig
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Clock
from webhook.objects.live_objects import NOTE_MAX

_log: Final = logging.getLogger("webhook.controller")
EVERY: Final = 5.0
"""The period between two checks, in seconds."""
TIMING: Final = QueueTiming(resync=EVERY, first_delay=EVERY, longest_delay=EVERY)
_CHECK_EVERY: Final = 60.0
"""The period between two reads of the tenant policy, in seconds."""
UNPROTECTED: Final = "unprotected"
"""The reason of a failure: the policy is absent, or does not deny."""
_ROUNDS: Final = 3
"""Reconciliations of one RayCluster in a row: pods marked in one are deleted in the next."""

REPLACED: Final = "ReplicaReplaced"
DUPLICATED: Final = "DuplicateDeleted"
"""Reasons of events."""

Place = tuple[str, str]
"""The uid of a RayCluster, and the name of a worker group."""


class RepairReconciler:
    """Reconciles every few seconds. `record` writes events, and retries with the next call."""

    def __init__(
        self,
        synced: Callable[[], bool],
        clusters: ClusterIndex,
        store: RepairStore,
        record: Callable[[Iterable[EventRequest], float], Awaitable[None]],
        limits: RepairLimits = LIMITS,
        time_source: Clock | None = None,
    ) -> None:
        self.deleted: dict[str, int] = {}
        """Pods deleted since the start, by reason."""
        self.waiting: dict[Place, dict[str, str]] = {}
        """By group, the broken replicas that are not replaced, each with the reason."""
        self._clusters = clusters
        self._store = store
        self._record = record
        self._limits = limits
        self._time_source = time_source or Clock()
        self._memories: dict[Place, Memory] = {}
        self._check_at = -inf
        self._allowed = False
        self._unmet = ""
        self.queue = WorkQueue(
            "repair", self._reconcile, ready=synced, timing=TIMING, time_source=self._time_source
        )

    async def run(self) -> None:
        """Reconcile until cancelled, with records that are read again and an empty memory: a broken
        replica is replaced after the full delay again.
        """
        self._memories.clear()
        self._store.records.discard()
        await self.queue.run()

    async def _reconcile(self, key: Key) -> bool:
        if key == ALL:
            await self._resync()
        elif (
            self._allowed
            and (cluster_config := self._clusters.get(*key)) is not None
            and _is_repair_enabled(cluster_config)
        ):
            await self._repair(cluster_config)
        return False

    async def _resync(self) -> None:
        """Reconcile all RayClusters with repair enabled, and forget all others. Raises ApiError."""
        await self._check()
        if not self._allowed:
            return
        cluster_configs = [
            cluster_config
            for cluster_config in self._clusters
            if _is_repair_enabled(cluster_config)
        ]
        for cluster_config in cluster_configs:
            self.queue.add((cluster_config.namespace, cluster_config.name))
        uids = {cluster_config.uid for cluster_config in cluster_configs}
        for state_by_place in (self._memories, self.waiting):
            for place in [place for place in state_by_place if place[0] not in uids]:
                del state_by_place[place]
        await self._store.records.prune(uids)

    async def _check(self) -> None:
        """Check once a minute whether the tenant policy is in force, and log a change: without the
        policy, anyone who can create pods can create one that counts as a host. Raises ApiError.
        """
        now = self._time_source.clock()
        if now < self._check_at:
            return
        self._allowed = False
        unmet = await self._store.unprotected()
        self._check_at, self._allowed = now + _CHECK_EVERY, not unmet
        if unmet:
            self.queue.failures[UNPROTECTED] += 1
        if unmet and unmet != self._unmet:
            message = (
                "repair is off: %s, so everybody who may create pods could make one that counts as "
                "a host. Apply it: kubectl apply -k manifests/policies/tenants"
            )
            _log.error(message, unmet)
        elif self._unmet and not unmet:
            _log.info("repair is on: the policy for tenants is in force")
        self._unmet = unmet

    async def _repair(self, cluster_config: RayClusterConfig) -> None:
        for _ in range(_ROUNDS):
            done = False
            groups = await self._store.groups(cluster_config)
            for name, group in groups.items():
                records = await self._store.records.of(cluster_config.uid)
                group_records = {
                    group_name: record
                    for group_name, record in records.items()
                    if group_name in groups
                }
                done |= await self._act(cluster_config, name, group, group_records)
            if not done:
                return

    async def _act(
        self, cluster_config: RayClusterConfig, name: str, group: RepairGroup, records: Records
    ) -> bool:
        """Record and perform the plan of a group, and return whether more actions may be due at
        once.

        An action is performed only after its record is written. Raises ApiError.
        """
        place = cluster_config.uid, name
        memory = self._memories.setdefault(place, Memory())
        record = records.get(name, EMPTY)
        repair_plan = plan(
            group,
            record,
            memory=memory,
            limits=self._limits,
            now=self._time_source.clock(),
            date=time(),
        )
        self._log_reasons(cluster_config, name, self.waiting.get(place, {}), repair_plan.waiting)
        self.waiting[place] = repair_plan.waiting
        if repair_plan.record != record:
            await self._store.records.write(
                cluster_config.uid, {**records, name: repair_plan.record}
            )
        for action in repair_plan.actions:
            if action.kind != DELETE:
                await self._perform(cluster_config, action)
        await self._delete(
            cluster_config,
            name,
            [deletion for deletion in repair_plan.actions if deletion.kind == DELETE],
        )
        return any(action.kind != UNMARK for action in repair_plan.actions)

    async def _delete(
        self, cluster_config: RayClusterConfig, group: str, actions: Sequence[Action]
    ) -> None:
        """Delete pods concurrently, and report the deleted ones: KubeRay replaces a pod as soon as
        it is deleted, and the index of a replica is free once all its pods are being deleted.
        Raises ApiError.
        """
        results = await asyncio.gather(
            *(self._perform(cluster_config, action) for action in actions), return_exceptions=True
        )
        deleted: dict[tuple[str, str], list[str]] = {}
        for action, done in zip(actions, results, strict=True):
            if done is True:
                replica = action.host.identity.name
                deleted.setdefault((replica, action.reason), []).append(action.host.name)
        if deleted:
            event_requests = [
                _build_event(cluster_config, group, *key, pods) for key, pods in deleted.items()
            ]
            await self._record(event_requests, time())
        for error in results:
            if isinstance(error, BaseException):
                raise error

    async def _perform(self, cluster_config: RayClusterConfig, action: Action) -> bool:
        """Perform an action, and return whether it succeeded: False on a conflict."""
        try:
            await self._store.perform(cluster_config, action)
        except ApiError as error:
            if error.reason not in OVERTAKEN:
                raise
            return False
        if action.kind == DELETE:
            reason = action.reason
            self.deleted[reason] = self.deleted.get(reason, 0) + 1
            message = "repair: deleted pod %s/%s of %s: %s"
            host = action.host
            replica_label = f"replica {host.identity.name}"
            _log.warning(message, cluster_config.namespace, host.name, replica_label, reason)
        return True

    def _log_reasons(
        self,
        cluster_config: RayClusterConfig,
        group: str,
        before: dict[str, str],
        now: dict[str, str],
    ) -> None:
        """Log the reason why a broken replica is not replaced, if the reason is new."""
        for replica, why in now.items():
            if before.get(replica) != why:
                message = "repair: %s of group %s of RayCluster %s/%s is broken, not replaced: %s"
                _log.info(
                    message,
                    f"replica {replica}",
                    group,
                    cluster_config.namespace,
                    cluster_config.name,
                    why,
                )


def _is_repair_enabled(cluster_config: RayClusterConfig) -> bool:
    return cluster_config.repair or cluster_config.restart


def _build_event(
    cluster_config: RayClusterConfig, group: str, replica: str, reason: str, pods: list[str]
) -> EventRequest:
    names, replica_label = ", ".join(pods), f"replica {replica}"
    kind, message = REPLACED, f"{replica_label} is replaced, {reason}: deleted {names}"
    if reason == DUPLICATE:
        kind = DUPLICATED
        message = f"{replica_label} is complete without {names}: deleted, {reason}"
    key = tracker.SeriesKey(cluster_config.uid, (group, replica), kind)
    return EventRequest(
        key,
        "Warning",
        namespace=cluster_config.namespace,
        cluster=cluster_config.name,
        note=message[:NOTE_MAX],
    )
