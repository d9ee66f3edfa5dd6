"""The composition root of `controller`: from settings to a process that writes to the cluster. No
logic.

See docs/contributing/decisions/0019-a-controller-of-its-own.md.
"""

from collections import Counter
from collections.abc import Callable
from socket import gethostname
from typing import Final
from uuid import uuid4

from webhook.control.domain_store import COMPUTE_DOMAINS
from webhook.control.event_recorder import EventCounters, EventRecorder
from webhook.control.group_index import GroupIndex
from webhook.control.leader import Leader, Works
from webhook.control.lease import Lease
from webhook.control.podgroup_api import POD_GROUPS
from webhook.control.publisher import Publisher
from webhook.control.repair_records import RepairRecords
from webhook.control.repair_store import RepairStore
from webhook.control.repairer import Repairer
from webhook.control.reporter import Reporter
from webhook.control.services import HeadlessServices
from webhook.follow.client import Api
from webhook.follow.discovery import Discovery, DomainsServed
from webhook.follow.observing import INSTALLATION, Observing
from webhook.follow.timing import DISCOVERY_SECONDS, PublishingTiming, Timing
from webhook.http.application import admin_application
from webhook.http.server import HttpServer
from webhook.repair.plan import Limits
from webhook.runtime import Process
from webhook.serving.gate import Gate
from webhook.settings import Settings
from webhook.status.tracker import Look, Tally
from webhook.status.world import World
from webhook.telemetry import table
from webhook.telemetry.log import Log, Output, follow_logs
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.readable import form_of
from webhook.wiring.connection import connection, own_namespace
from webhook.wiring.following import Connected, watch_metrics

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
    """Return the process: it follows the cluster, and while it leads it writes events on
    RayClusters and keeps the PodGroups of those that ask for them, as far as the settings say so.

    Raises ConfigurationError when it is not known where its Lease is.
    """
    log = Log(output, "controller", form_of(settings.log.format, output))
    follow_logs(log)
    settings.extend()
    metrics = Metrics("controller")
    api = Api(connection(settings.kubeconfig))
    world = World(ignoring=settings.ignore.rayclusters)
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


def _gate(observing: Observing, leader: Leader) -> Gate:
    return Gate(
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
) -> Publisher | None:
    if not settings.scheduling.publish:
        return None
    publisher = Publisher(observing, index, timing)
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
) -> Publisher | None:
    if served is None:
        return None
    keeper = Publisher(observing, index, timing, subject=COMPUTE_DOMAINS)
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
    settings: Settings, observing: Observing, world: World, metrics: Metrics, identity: str
) -> Reporter | None:
    if not settings.controller.events:
        return None
    reporter = Reporter(world, observing, EventRecorder(observing.api, identity))
    replica_metrics(metrics, lambda: reporter.last, reporter.counters)
    return reporter


def _repairer(
    settings: Settings,
    observing: Observing,
    index: GroupIndex,
    metrics: Metrics,
    records: RepairRecords,
    identity: str,
) -> Repairer | None:
    if not settings.repair.enabled:
        return None
    api = observing.api
    repairer = Repairer(
        observing,
        index.clusters,
        RepairStore(api, records, ignoring=settings.ignore.rayclusters),
        EventRecorder(api, identity),
        Limits(),
    )
    metrics.expose(table.REPAIR_DELETED_PODS, lambda: repairer.counters.deleted)
    metrics.expose(table.REPAIR_FAILURES, lambda: repairer.counters.failures)
    metrics.expose(
        table.REPAIR_WAITING_REPLICAS,
        lambda: Counter(why for found in repairer.waiting.values() for why in found.values()),
    )
    return repairer


def replica_metrics(metrics: Metrics, last: Callable[[], Look], counters: EventCounters) -> None:
    """Expose what the last look found, a series for each group and state, and the events."""

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
