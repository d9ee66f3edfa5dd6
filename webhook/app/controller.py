"""The composition root of `controller`: builds the process that writes to the cluster. No logic.

See docs/contributing/decisions/0019-a-controller-of-its-own.md.
"""

from collections import Counter
from collections.abc import Callable, Coroutine
from socket import gethostname
from typing import Final
from uuid import uuid4

from webhook.accelerators.devices import add_devices
from webhook.accelerators.profiles import add_profiles
from webhook.app.informers import Connected, connection, own_namespace, watch_metrics
from webhook.app.runtime import Process, Runnable, admin_server, apply_settings
from webhook.cache.cluster_cache import REPORTED, Observing
from webhook.config.configuration import Settings
from webhook.controller.events import EventRecorder, ProblemReporter
from webhook.controller.group_index import GroupIndex
from webhook.controller.leader import Leader, Lease
from webhook.controller.podgroups.domains import COMPUTE_DOMAINS
from webhook.controller.podgroups.podgroup_api import POD_GROUPS
from webhook.controller.podgroups.podgroup_reconciler import TIMING, PodGroupReconciler
from webhook.controller.repair.repair_reconciler import RepairReconciler
from webhook.controller.repair.repair_records import RepairRecords
from webhook.controller.repair.repair_store import RepairStore
from webhook.controller.work_queue import QueueTiming
from webhook.diagnostics.tracker import Tally, TrackedProblems
from webhook.httpserver.application import Readiness
from webhook.kubeclient.client import Api
from webhook.kubeclient.discovery import Discovery, DomainsServed
from webhook.kubeclient.timeouts import DISCOVERY_SECONDS, Timing
from webhook.logging.log import Output
from webhook.metrics import table
from webhook.metrics.collector import Metrics
from webhook.objects.object_cache import ObjectCache

_STATES: Final = ("complete", "creating", "degraded", "missing")

_Work = Callable[[], Coroutine[None, None, None]]

_Group = tuple[str, str, str]
"""Namespace, name of the RayCluster, and name of a worker group."""


def build(
    settings: Settings,
    output: Output,
    *,
    discovery: float = DISCOVERY_SECONDS,
    publishing: QueueTiming = TIMING,
) -> Process:
    """Return the process: while it is the leader, it records events on RayClusters and manages
    PodGroups, ComputeDomains and repairs, as configured.

    Raises ConfigurationError if the namespace of its Lease is unknown.
    """
    log, metrics = apply_settings(settings, output, "controller")
    api = Api(connection(settings.kubeconfig))
    object_cache = ObjectCache(
        ignoring=settings.ignore.rayclusters,
        devices=add_devices(settings.devices),
        profiles=add_profiles(settings.profiles),
    )
    index = GroupIndex(object_cache)
    components = settings.installation.components
    kinds = REPORTED if "events" in components else ()
    timing = Timing(discovery=discovery)
    observing = Observing(
        api, object_cache, namespaces=settings.namespaces, timing=timing, other_kinds=kinds
    )
    namespace = own_namespace(settings.installation.namespace)
    lease = Lease(api, namespace, f"{settings.installation.name}-controller")
    # As in client-go: a container that restarts in its pod is another process.
    identity = f"{gethostname()}_{uuid4()}"
    parts: dict[str, Runnable] = {"observing": observing}
    works: list[_Work] = []
    if "pod-groups" in components:
        works.append(_pod_group_reconciler(observing, index, metrics, publishing))
    if "compute-domains" in components:
        parts["ComputeDomains"] = served = Discovery(DomainsServed(api), discovery)
        works.append(
            _domain_reconciler(observing, index, metrics=metrics, timing=publishing, served=served)
        )
    if "events" in components:
        works.append(_reporter(observing, object_cache, metrics, identity))
    if "repair" in components:
        works.append(
            _repairer(observing, index, metrics=metrics, settings=settings, identity=identity)
        )
    parts["leader"] = leader = Leader(lease, identity, works)
    metrics.expose(table.MEMBERS, lambda: len(index.members))
    metrics.expose(table.CLUSTERS, lambda: len(index.clusters))
    metrics.expose(table.MALFORMED_IDENTITIES, lambda: index.malformed)
    metrics.expose(table.LEADER, lambda: leader.leading)
    watch_metrics(metrics, lambda: observing.watches)
    gate = _gate(observing, leader)
    admin = admin_server(settings, gate, metrics.exposition)
    return Process({"admin": admin, "cluster": Connected(api, parts)}, (admin,), gate.drain, log)


def _gate(observing: Observing, leader: Leader) -> Readiness:
    return Readiness(
        {
            "worker pods": lambda: observing.has_listed("pods"),
            "RayClusters": lambda: observing.has_listed("rayclusters"),
            "discovery": lambda: observing.discovery.answered,
            "leader election": lambda: leader.answered,
        },
        {
            "leader election": lambda: (
                "this process leads" if leader.leading else "another process leads"
            )
        },
    )


def _pod_group_reconciler(
    observing: Observing, index: GroupIndex, metrics: Metrics, timing: QueueTiming
) -> _Work:
    reconciler = PodGroupReconciler(observing, index, timing)
    observing.discovery.subscribe(reconciler.serve)
    metrics.expose(table.SCHEDULING_OBJECTS, lambda: reconciler.done)
    metrics.expose(table.SCHEDULING_FAILURES, lambda: reconciler.queue.failures)
    metrics.expose(table.SCHEDULING_NAME_CONFLICTS, lambda: reconciler.taken_names)
    return reconciler.queue.run


def _domain_reconciler(
    observing: Observing,
    index: GroupIndex,
    metrics: Metrics,
    timing: QueueTiming,
    served: Discovery[str],
) -> _Work:
    reconciler = PodGroupReconciler(observing, index, timing, subject=COMPUTE_DOMAINS)
    served.subscribe(reconciler.serve)
    metrics.expose(
        table.COMPUTE_DOMAINS,
        lambda: {
            verb: number
            for (resource, verb), number in reconciler.done.items()
            if resource == POD_GROUPS
        },
    )
    metrics.expose(table.COMPUTE_DOMAIN_FAILURES, lambda: reconciler.queue.failures)
    return reconciler.queue.run


def _reporter(
    observing: Observing, object_cache: ObjectCache, metrics: Metrics, identity: str
) -> _Work:
    recorder = EventRecorder(observing.api, identity)
    reporter = ProblemReporter(object_cache, observing, recorder)
    replica_metrics(metrics, lambda: reporter.last)
    metrics.expose(table.EVENTS, lambda: recorder.written)
    metrics.expose(table.EVENT_FAILURES, lambda: recorder.failures + reporter.queue.failures)
    return reporter.run


def _repairer(
    observing: Observing, index: GroupIndex, metrics: Metrics, settings: Settings, identity: str
) -> _Work:
    installation, api = settings.installation, observing.api
    records = RepairRecords(
        api, own_namespace(installation.namespace), f"{installation.name}-controller"
    )
    store = RepairStore(api, records, ignoring=settings.ignore.rayclusters)
    record = EventRecorder(api, identity).record
    repairer = RepairReconciler(lambda: observing.synced, index.clusters, store, record)
    metrics.expose(table.REPAIR_DELETED_PODS, lambda: repairer.deleted)
    metrics.expose(table.REPAIR_FAILURES, lambda: repairer.queue.failures)
    metrics.expose(
        table.REPAIR_WAITING_REPLICAS,
        lambda: Counter(why for reasons in repairer.waiting.values() for why in reasons.values()),
    )
    return repairer.run


def replica_metrics(metrics: Metrics, last: Callable[[], TrackedProblems]) -> None:
    """Expose the numbers of the last report, by group and state."""

    def by_group(value: Callable[[Tally], float | None]) -> Callable[[], dict[_Group, float]]:
        return lambda: {
            (tally.namespace, tally.cluster, tally.group): number
            for tally in last().tallies
            if (number := value(tally)) is not None
        }

    metrics.expose(
        table.REPLICAS,
        lambda: {
            (tally.namespace, tally.cluster, tally.group, state): tally.replicas.get(state, 0)
            for tally in last().tallies
            for state in _STATES
        },
    )
    metrics.expose(table.REPLICA_INCOMPLETE_SINCE, by_group(lambda tally: tally.incomplete_since))
    metrics.expose(table.PODS_WITHOUT_IDENTITY, by_group(lambda tally: tally.without_identity))
    metrics.expose(table.PROBLEMS, lambda: last().problems)
