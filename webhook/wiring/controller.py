"""The composition root of `controller`: from settings to a process that writes to the cluster. No
logic.

See docs/decisions/0019-a-controller-of-its-own.md.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from socket import gethostname
from uuid import uuid4

from webhook.control.event_recorder import EventRecorder
from webhook.control.leader import Leader, Work, Works
from webhook.control.lease import Lease
from webhook.control.publisher import Publisher
from webhook.control.repair_store import RepairStore
from webhook.control.repairer import Repairer
from webhook.control.reporter import Reporter
from webhook.follow.discovery import Discovery, PodGroupsServed
from webhook.follow.observing import Observing
from webhook.follow.state import ClusterState, Known
from webhook.follow.timing import PublishingTiming
from webhook.groups.clusters import ClusterIndex
from webhook.groups.membership import Membership
from webhook.groups.shards import Shards
from webhook.http.application import admin_application
from webhook.http.bounds import PROBES_IN_FLIGHT, Bounds
from webhook.http.server import HttpServer
from webhook.repair.plan import Limits
from webhook.runtime import Runnable
from webhook.serving.gate import Gate
from webhook.settings import Settings
from webhook.telemetry.log import Log, Output, follow_logs
from webhook.telemetry.process_metrics import ProcessMetrics
from webhook.telemetry.publishing import PublisherCollector
from webhook.telemetry.readable import form_of
from webhook.telemetry.repair import RepairCollector
from webhook.telemetry.replicas import ReplicaCollector
from webhook.wiring.connection import connection, own_namespace
from webhook.wiring.following import follow_metrics


@dataclass(frozen=True)
class Controller:
    """Everything that runs, by name, and what a stop does first."""

    runnables: dict[str, Runnable]
    admin: HttpServer
    drain: Callable[[], Awaitable[None]]
    log: Log


def build(settings: Settings, output: Output) -> Controller:
    """Return the process: it follows the cluster, and while it leads it writes events on
    RayClusters and keeps the PodGroups of those that ask for them, as far as the settings say so.

    Raises ConfigurationError when it is not known where its Lease is.
    """
    log, metrics = (
        Log(output, "controller", form_of(settings.log.format, output)),
        ProcessMetrics("controller"),
    )
    follow_logs(log)
    ignoring = settings.ignore.rayclusters
    clusters = ClusterIndex(ignoring=ignoring)
    members = Membership()
    known = Known(clusters, members, Shards(clusters))
    cluster = ClusterState(connection(settings.kubeconfig), known, settings.namespaces)
    discovery = Discovery(PodGroupsServed(cluster.api), settings.scheduling.discovery_seconds)
    identity = f"{gethostname()}_{uuid4()}"
    works: list[Work] = []
    reporter: Reporter | None = None
    if settings.scheduling.publish:
        publisher = Publisher(
            cluster, clusters, members, PublishingTiming(sweep=settings.scheduling.sweep_seconds)
        )
        discovery.subscribe(publisher.serve)
        metrics.registry.register(PublisherCollector(publisher))
        works.append(publisher)
    if settings.controller.events:
        reporter = Reporter(
            lambda world: Observing(cluster.api, world, settings.namespaces, beside=()),
            EventRecorder(cluster.api, identity),
            ignoring=ignoring,
        )
        metrics.registry.register(ReplicaCollector(lambda: reporter.last, reporter.counters))
        works.append(reporter)
    if settings.repair.enabled:
        limits = Limits(settings.repair.settle_seconds, settings.repair.per_hour)
        repairer = Repairer(
            cluster,
            clusters,
            RepairStore(cluster.api, ignoring=ignoring),
            EventRecorder(cluster.api, identity),
            limits,
        )
        metrics.registry.register(RepairCollector(repairer))
        works.append(repairer)
    lease = Lease(
        cluster.api,
        own_namespace(settings.controller.namespace, "controller.namespace"),
        settings.controller.lease,
    )
    leader = Leader(lease, identity, Works(works))
    cluster.beside |= {"discovery": discovery, "leader": leader}

    metrics.gauge("ray_webhook_members", "Worker pods that hold a seat.", lambda: len(members))
    metrics.gauge("ray_webhook_clusters", "RayClusters that are known.", lambda: len(clusters))
    metrics.gauge(
        "ray_webhook_leader",
        "1 while this process leads, so that it writes.",
        lambda: float(leader.leading),
    )
    follow_metrics(metrics, cluster, lambda: reporter.watches if reporter else ())
    gate = Gate(
        {
            "worker pods": cluster.pods_synced,
            "RayClusters": cluster.clusters_synced,
            "discovery": lambda: discovery.answered,
            "leader election": lambda: leader.answered,
        },
        {
            "leader election": lambda: (
                "this process leads" if leader.leading else "another process leads"
            )
        },
    )
    own, bounds = settings.controller, Bounds(connections=100, in_flight=PROBES_IN_FLIGHT)
    admin = HttpServer(
        admin_application(gate, metrics.exposition), own.host, own.port, bounds=bounds
    )

    async def drain() -> None:
        gate.draining = True

    return Controller({"admin": admin, "cluster": cluster}, admin, drain, log)
