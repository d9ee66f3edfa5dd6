"""The composition root of `controller`: builds the process that writes to the cluster. No logic.

See docs/contributing/decisions/0019-a-controller-of-its-own.md.
"""

from collections import Counter
from collections.abc import Callable
from socket import gethostname
from typing import Final
from uuid import uuid4

from webhook.app.api_connection import connection, own_namespace
from webhook.app.informers import Connected, watch_metrics
from webhook.app.runtime import Process
from webhook.cache.cluster_cache import INSTALLATION, Observing
from webhook.config.configuration import Settings
from webhook.controller.event_recorder import EventCounters, EventRecorder
from webhook.controller.group_index import GroupIndex
from webhook.controller.headless_services import HeadlessServices
from webhook.controller.leader import Leader, Works
from webhook.controller.lease import Lease
from webhook.controller.podgroups.domain_store import COMPUTE_DOMAINS
from webhook.controller.podgroups.podgroup_api import POD_GROUPS
from webhook.controller.podgroups.podgroup_reconciler import PodGroupReconciler
from webhook.controller.problem_events import ProblemReporter
from webhook.controller.repair.plan import Limits
from webhook.controller.repair.repair_reconciler import RepairReconciler
from webhook.controller.repair.repair_records import RepairRecords
from webhook.controller.repair.repair_store import RepairStore
from webhook.diagnostics.object_cache import ObjectCache
from webhook.diagnostics.tracker import Look, Tally
from webhook.httpserver.application import admin_application
from webhook.httpserver.readiness import Readiness
from webhook.httpserver.server import HttpServer
from webhook.kubeclient.client import Api
from webhook.kubeclient.discovery import Discovery, DomainsServed
from webhook.kubeclient.timeouts import DISCOVERY_SECONDS, PublishingTiming, Timing
from webhook.logging.log import Log, Output, follow_logs
from webhook.logging.text_format import form_of
from webhook.metrics import table
from webhook.metrics.collector import Metrics

_STATES: Final = ("complete", "coming", "waits", "missing")

_Group = tuple[str, str, str]
"""Namespace, name of the RayCluster, and name of a worker group."""


def build(
    settings: Settings,
    output: Output,
    *,
    discovery: float = DISCOVERY_SECONDS,
    publishing: PublishingTiming | None = None,
) -> Process:
    """Return the process: while it is the leader, it records events on RayClusters and manages
    PodGroups, ComputeDomains, headless Services and repairs, as configured.

    Raises ConfigurationError if the namespace of its Lease is unknown.
    """
    log = Log(output, "controller", form_of(settings.log.format, output))
    follow_logs(log)
    settings.extend()
    metrics = Metrics("controller")
    api = Api(connection(settings.kubeconfig))
    world = ObjectCache(ignoring=settings.ignore.rayclusters)
    index = GroupIndex(world)
    kinds = INSTALLATION if settings.controller.events else ()
    timing = Timing(discovery=discovery)
    observing = Observing(api, world, settings.namespaces, timing, kinds)
    namespace = own_namespace(settings.installation.namespace)
    name = f"{settings.installation.name}-controller"
    identity = f"{gethostname()}_{uuid4()}"
    records = RepairRecords(api, namespace, name)
    domains = Discovery(DomainsServed(api), discovery) if settings.compute_domains.enabled else None
    works = (
        _publisher(settings, observing, index, metrics, publishing),
        _domain_keeper(observing, index, metrics, publishing, domains),
        HeadlessServices(observing, index.clusters) if settings.network.services else None,
        _reporter(settings, observing, world, metrics, identity),
        _repairer(settings, observing, index, metrics, records, identity),
    )
    work = Works([each for each in works if each is not None])
    leader = Leader(Lease(api, namespace, name), identity, work)

    _index_metrics(metrics, index)
    metrics.expose(table.LEADER, lambda: leader.leading)
    watch_metrics(metrics, lambda: observing.watches)
    gate = _gate(observing, leader)
    own = settings.listen
    admin = HttpServer(admin_application(gate, metrics.exposition), own.host, own.admin_port)

    async def drain() -> None:
        gate.draining = True

    beside = {"ComputeDomains": domains} if domains is not None else {}
    cluster = Connected(api, {"observing": observing, "leader": leader, **beside})
    return Process({"admin": admin, "cluster": cluster}, (admin,), drain, log)


def _index_metrics(metrics: Metrics, index: GroupIndex) -> None:
    metrics.expose(table.MEMBERS, lambda: len(index.members))
    metrics.expose(table.CLUSTERS, lambda: len(index.clusters))
    metrics.expose(table.MALFORMED_SEATS, lambda: index.malformed)


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


def _publisher(
    settings: Settings,
    observing: Observing,
    index: GroupIndex,
    metrics: Metrics,
    timing: PublishingTiming | None,
) -> PodGroupReconciler | None:
    if not settings.scheduling.publish:
        return None
    publisher = PodGroupReconciler(observing, index, timing)
    observing.discovery.subscribe(publisher.serve)
    metrics.expose(table.SCHEDULING_OBJECTS, lambda: publisher.counters.done)
    metrics.expose(table.SCHEDULING_FAILURES, lambda: publisher.counters.failures)
    metrics.expose(table.SCHEDULING_TAKEN_NAMES, lambda: publisher.taken_names)
    return publisher


def _domain_keeper(
    observing: Observing,
    index: GroupIndex,
    metrics: Metrics,
    timing: PublishingTiming | None,
    served: Discovery[str] | None,
) -> PodGroupReconciler | None:
    if served is None:
        return None
    keeper = PodGroupReconciler(observing, index, timing, subject=COMPUTE_DOMAINS)
    served.subscribe(keeper.serve)
    metrics.expose(
        table.COMPUTE_DOMAINS,
        lambda: {
            verb: number
            for (resource, verb), number in keeper.counters.done.items()
            if resource == POD_GROUPS
        },
    )
    metrics.expose(table.COMPUTE_DOMAIN_FAILURES, lambda: keeper.counters.failures)
    return keeper


def _reporter(
    settings: Settings, observing: Observing, world: ObjectCache, metrics: Metrics, identity: str
) -> ProblemReporter | None:
    if not settings.controller.events:
        return None
    reporter = ProblemReporter(world, observing, EventRecorder(observing.api, identity))
    replica_metrics(metrics, lambda: reporter.last, reporter.counters)
    return reporter


def _repairer(
    settings: Settings,
    observing: Observing,
    index: GroupIndex,
    metrics: Metrics,
    records: RepairRecords,
    identity: str,
) -> RepairReconciler | None:
    if not settings.repair.enabled:
        return None
    api = observing.api
    repairer = RepairReconciler(
        observing,
        index.clusters,
        RepairStore(api, records, ignoring=settings.ignore.rayclusters),
        EventRecorder(api, identity),
        Limits(per_hour=settings.repair.per_hour),
    )
    metrics.expose(table.REPAIR_DELETED_PODS, lambda: repairer.counters.deleted)
    metrics.expose(table.REPAIR_FAILURES, lambda: repairer.counters.failures)
    metrics.expose(
        table.REPAIR_WAITING_REPLICAS,
        lambda: Counter(why for found in repairer.waiting.values() for why in found.values()),
    )
    return repairer


def replica_metrics(metrics: Metrics, last: Callable[[], Look], counters: EventCounters) -> None:
    """Expose the numbers of the last report, by group and state, and those of events."""

    def by_group(value: Callable[[Tally], float | None]) -> Callable[[], dict[_Group, float]]:
        return lambda: {
            (tally.namespace, tally.cluster, tally.group): found
            for tally in last().tallies
            if (found := value(tally)) is not None
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
    metrics.expose(table.PODS_WITHOUT_SEAT, by_group(lambda tally: tally.unseated))
    metrics.expose(table.TROUBLES, lambda: last().troubles)
    metrics.expose(table.EVENTS, lambda: counters.written)
    metrics.expose(table.EVENT_FAILURES, lambda: counters.failures)
