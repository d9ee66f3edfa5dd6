"""Reconciler of the Workloads and PodGroups, or the ComputeDomains, of RayClusters. Several
processes may run it at the same time.

See docs/contributing/decisions/0016-pod-groups.md.
"""

import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from webhook.cache.cluster_cache import Observing
from webhook.controller.group_index import GroupIndex
from webhook.controller.podgroups.lifecycle import (
    Action,
    Actual,
    Create,
    Delete,
    decide,
    foreign,
    needs_retry,
)
from webhook.controller.podgroups.podgroup_api import POD_GROUPS, WORKLOADS, resource_of
from webhook.controller.podgroups.podgroup_store import Named, PodGroupStore
from webhook.controller.requests import OVERTAKEN, REFUSED
from webhook.controller.work_queue import ALL, Key, QueueTiming, WorkQueue
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.pod_groups import Desired, Occupied, build_desired, list_replica_names
from webhook.kubeclient.client import Api
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Clock

_log: Final = logging.getLogger("webhook.controller")
TIMING: Final = QueueTiming(resync=60.0)
_WORKERS: Final = 8
"""RayClusters that are reconciled concurrently."""
_ROUNDS: Final = 6
"""Reconciliations of a RayCluster in a row; the longest sequence needs five."""
_VERBS: Final = {
    "Create": "created",
    "Delete": "deleted",
    "Resize": "patched",
    "Label": "patched",
    "Release": "patched",
}


class Subject(Struct, frozen=True):
    """The kind of objects that a reconciler manages: its name in the log, the RayClusters that
    request it, the desired objects, and the store for an API version.
    """

    title: str
    is_requested: Callable[[RayClusterConfig], bool]
    desired: Callable[[RayClusterConfig, Occupied], Desired]
    store: Callable[[Api, str], PodGroupStore]


SCHEDULING_GROUPS: Final = Subject(
    "scheduling groups",
    lambda cluster_config: cluster_config.gang.active,
    build_desired,
    PodGroupStore,
)


class _State(Struct):
    """The state of a RayCluster that requests or may own objects."""

    reconciled: tuple[RayClusterConfig, Occupied] | None = None
    """The last input, if all its objects are as desired."""
    names: set[Named] = field(default_factory=set)
    """Objects to get by name, since creating them was a conflict."""
    foreign: tuple[str, ...] = ()
    """Desired names that are in use by objects of other owners."""


class PodGroupReconciler:
    """Reconciles RayClusters by the index of worker groups, once that is complete. Inactive until
    `serve` has set a version of the API.
    """

    def __init__(
        self,
        observing: Observing,
        index: GroupIndex,
        timing: QueueTiming = TIMING,
        time_source: Clock | None = None,
        subject: Subject = SCHEDULING_GROUPS,
    ) -> None:
        self.done = {
            (kind, verb): 0
            for kind in (WORKLOADS, POD_GROUPS)
            for verb in ("created", "patched", "deleted")
        }
        """Requests since the start, by resource and verb."""
        self._subject = subject
        self._observing = observing
        self._clusters = index.clusters
        self._members = index.members
        self._store: PodGroupStore | None = None
        self._states: dict[Key, _State] = {}
        self.queue = WorkQueue(
            subject.title,
            self._reconcile,
            ready=lambda: self._store is not None and observing.synced,
            timing=timing,
            time_source=time_source,
            workers=_WORKERS,
        )
        index.subscribe(self.queue)

    @property
    def taken_names(self) -> int:
        """The number of desired names that are in use by objects of other owners."""
        return sum(len(state.foreign) for state in self._states.values())

    def serve(self, version: str | None) -> None:
        """Set the version of the API; None stops reconciliation."""
        self._store = self._subject.store(self._observing.api, version) if version else None
        self.queue.add(ALL)

    async def _reconcile(self, key: Key) -> bool:
        store = self._store
        if store is None:
            return True
        if key == ALL:
            await self._resync(store)
            return False
        cluster_config = self._known(key)
        is_requested = cluster_config is not None and self._subject.is_requested(cluster_config)
        if cluster_config is None or not (is_requested or key in self._states):
            self._states.pop(key, None)
            return False
        state = self._states.setdefault(key, _State())
        inputs = cluster_config, list_replica_names(cluster_config, self._members)
        # Most events of pods change neither the configuration nor the names of replicas.
        if state.reconciled == inputs:
            return False
        state.reconciled = None
        missing = await self._reach(store, state, cluster_config, self._subject.desired(*inputs))
        if not missing:
            state.reconciled = inputs
            if not is_requested:
                del self._states[key]
        return missing

    def _known(self, key: Key) -> RayClusterConfig | None:
        """Return a RayCluster, unless it is unmanaged or being deleted (its objects with it)."""
        cluster_config = self._clusters.get(*key)
        return (
            None
            if cluster_config is None or cluster_config.unmanaged or cluster_config.deleting
            else cluster_config
        )

    async def _resync(self, store: PodGroupStore) -> None:
        """List all managed objects, and reconcile the RayClusters whose objects differ from the
        desired state. Raises ApiError.

        Objects whose RayCluster does not exist are left to garbage collection.
        """
        for cluster_config in self._clusters:
            if (
                self._subject.is_requested(cluster_config)
                and (cluster_config.namespace, cluster_config.name) not in self._states
            ):
                self.queue.add((cluster_config.namespace, cluster_config.name))
        actual_by_key: dict[Key, Actual] = {}
        for namespace in self._observing.namespaces:
            actual_by_key |= await store.all(namespace)
        for key in {*actual_by_key, *self._states}:
            try:
                differs = self._differs(store, key, actual_by_key.get(key, Actual()))
            # Our own bug, which the reconciliation of this RayCluster reports
            except Exception:  # noqa: BLE001
                differs = True
            if differs:
                self._states.setdefault(key, _State()).reconciled = None
                self.queue.add(key)

    def _differs(self, store: PodGroupStore, key: Key, actual: Actual) -> bool:
        cluster_config = self._known(key)
        if cluster_config is None:
            return key in self._states
        desired = self._subject.desired(
            cluster_config, list_replica_names(cluster_config, self._members)
        )
        resizable = store.resizable
        actions = decide(desired, actual, resizable=resizable, live=desired.live)
        return bool(actions) or needs_retry(desired, actual)

    async def _reach(
        self,
        store: PodGroupStore,
        state: _State,
        cluster_config: RayClusterConfig,
        desired: Desired,
    ) -> bool:
        """Perform actions until none is left; return whether objects are missing."""
        # Several rounds, because PodGroups follow their Workload; not endless, because another
        # program may undo each of them.
        for _ in range(_ROUNDS):
            actual = await store.of(cluster_config, sorted(state.names))
            state.names &= {
                (resource_of(seen_object), seen_object.identity.name) for seen_object in actual.all
            }
            self._report(state, cluster_config, tuple(foreign(desired, actual)))
            decided = await self._decide(store, cluster_config, desired, actual)
            actions = await store.possible(cluster_config, decided)
            if not actions:
                return bool(decided) or needs_retry(desired, actual)
            await self._perform(store, state, cluster_config, actions)
        raise ApiError(
            "conflict",
            "the objects are changed as fast as they are put right: does another program make "
            "them too?",
        )

    def _report(
        self, state: _State, cluster_config: RayClusterConfig, names: tuple[str, ...]
    ) -> None:
        if names and names != state.foreign:
            message = (
                "%s of RayCluster %s/%s: %s exist already and are not its own; delete or rename "
                "them"
            )
            place = cluster_config.namespace, cluster_config.name
            _log.warning(message, self._subject.title, *place, ", ".join(names))
        state.foreign = names

    async def _decide(
        self,
        store: PodGroupStore,
        cluster_config: RayClusterConfig,
        desired: Desired,
        actual: Actual,
    ) -> list[Action]:
        """Return the next actions. The head pod is only queried if an action depends on it."""
        resizable = store.resizable
        careful = decide(desired, actual, resizable=resizable, live=desired.live | desired.heads)
        bold = decide(desired, actual, resizable=resizable, live=desired.live)
        return careful if careful == bold or await store.has_head(cluster_config) else bold

    async def _perform(
        self,
        store: PodGroupStore,
        state: _State,
        cluster_config: RayClusterConfig,
        actions: list[Action],
    ) -> None:
        """Perform all actions. Raises ApiError: at once if the API server failed, else the first
        refusal, after all other actions.
        """
        refusal: ApiError | None = None
        for action in actions:
            resource = resource_of(action.desired if isinstance(action, Create) else action.seen)
            try:
                await store.perform(cluster_config, action)
            except ApiError as error:
                if error.reason in REFUSED:
                    # One refused object, by a quota or a policy, must not keep the others from
                    # being created.
                    refusal = refusal or error
                    continue
                if error.reason not in OVERTAKEN:
                    raise
                self.queue.failures[error.reason] += 1
                if isinstance(action, Create):
                    # The existing object may lack our labels, by which the list selects.
                    state.names.add((resource, action.desired.name))
            else:
                self.done[resource, _VERBS[type(action).__name__]] += 1
                if isinstance(action, Delete):
                    state.names.discard((resource, action.seen.identity.name))
        if refusal is not None:
            raise refusal
