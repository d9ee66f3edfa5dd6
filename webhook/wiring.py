"""The composition root: from settings to a service of named runnables. No logic."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from time import time

from msgspec import structs

from webhook.admission.pods import PodHandler, Register
from webhook.admission.rays import RayHandler
from webhook.admission.resize import ResizeHandler
from webhook.admission.reviewer import ClusterReader, Mutation, Validation
from webhook.admission.shards import ShardHandler
from webhook.cluster.client import Load, in_cluster, kubeconfig
from webhook.cluster.discovery import Discovery
from webhook.cluster.errors import ApiError
from webhook.cluster.files import read_manifests
from webhook.cluster.pace import PublishingPace
from webhook.cluster.publisher import Publisher
from webhook.cluster.secrets import SecretVault
from webhook.cluster.standalone import load_state
from webhook.cluster.state import ClusterState
from webhook.groups.clusters import ClusterIndex
from webhook.groups.membership import Membership
from webhook.groups.register import AssumingRegister
from webhook.groups.shards import Shards
from webhook.mutation.policy import Policy
from webhook.runtime import Runnable
from webhook.serving.application import admin_application, review_application
from webhook.serving.bounds import MIB, PROBES_IN_FLIGHT, Bounds, raise_descriptor_limit
from webhook.serving.endpoint import ReviewEndpoint
from webhook.serving.gate import Condition, Gate
from webhook.serving.server import HttpServer
from webhook.settings import Serving, Settings, Tls
from webhook.telemetry.certificates import CertificateObserver
from webhook.telemetry.journal import Journal, Sink, follow_log
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.observer import ReviewObserver
from webhook.telemetry.publishing import PublishCollector
from webhook.telemetry.scrape import PacedScrapes
from webhook.telemetry.watches import WatchCollector, Watching
from webhook.tls.context import SwappingContext
from webhook.tls.files import CertificateFiles
from webhook.tls.keeper import Keeper
from webhook.tls.selfsigned import SelfSigned


@dataclass(frozen=True)
class Service:
    """Everything that runs, by name, and what a stop does first."""

    runnables: dict[str, Runnable]
    reviews: HttpServer
    admin: HttpServer
    drain: Callable[[], Awaitable[None]]
    journal: Journal
    settle: Callable[[], None]
    """Writes what the journal has still to tell of reviews."""


@dataclass(frozen=True)
class _Knowledge:
    """What is known of the cluster, and how it is kept."""

    clusters: ClusterIndex
    members: Membership
    register: Register
    shards: Shards
    reader: ClusterReader | None = None
    watches: Sequence[Watching] = ()
    discovery: Discovery | None = None
    publisher: Publisher | None = None
    conditions: dict[str, Condition] = field(default_factory=dict)
    runnables: dict[str, Runnable] = field(default_factory=dict)


def build(settings: Settings, sink: Sink) -> Service:
    """Return the service. Raises CertificateError, or ManifestError for the state."""
    known = _from_files(settings.state) if settings.standalone else _from_cluster(settings)
    journal, metrics = Journal(sink), Metrics()
    metrics.gauge("ray_webhook_members", "Worker pods that hold a seat.", lambda: len(known.members))
    metrics.gauge("ray_webhook_assumed_seats", "Seats handed out whose pod was not seen yet.", lambda: known.members.assumed)
    metrics.gauge("ray_webhook_assumed_shards", "Shard indices handed out, RayCluster not seen yet.", lambda: known.shards.assumed)
    metrics.gauge("ray_webhook_clusters", "RayClusters that are known.", lambda: len(known.clusters))
    metrics.registry.register(WatchCollector(known.watches))
    if known.publisher is not None:
        metrics.registry.register(PublishCollector(known.publisher))
    observer = ReviewObserver(journal, metrics, quiet=settings.log.admissions == "denied")
    follow_log("webhook.cluster", journal)

    tls = SwappingContext(verify_clients=settings.tls.client_ca is not None)
    certificates = CertificateObserver(journal, metrics, lambda: tls.expires)
    keepers = _keepers(settings.tls, settings.kubeconfig, tls, certificates)
    gate = Gate({"certificate": lambda: tls.valid(time()), **known.conditions}, {"certificate": certificates.expiry})

    policy = Policy(known.discovery is None, known.publisher is not None or settings.standalone, settings.resize.policy)
    pods = PodHandler(known.clusters, known.members, known.register, policy)
    rays = RayHandler(settings.validation.rules())
    if known.discovery is not None:
        known.discovery.subscribe(lambda version: _tell(pods, rays, pod_groups=version is not None))
    shards, resize = ShardHandler(known.shards), ResizeHandler(known.clusters, settings.resize.beyond)
    endpoints = {
        "/mutate": ReviewEndpoint(Mutation(pods, known.reader, shards), gate, observer),
        "/validate": ReviewEndpoint(Validation(rays, resize), gate, observer, stateless=True),
    }

    def exposition() -> tuple[bytes, str]:
        observer.settle()
        return metrics.exposition()

    host = settings.serving.host
    bounds = _bounds(settings.serving)
    reviews = HttpServer(
        review_application(endpoints),
        host,
        settings.serving.port,
        tls.listening,
        settings.tls.client_names,
        bounds=bounds,
        refused=observer.refused,
    )
    admin = HttpServer(
        admin_application(gate, PacedScrapes(exposition)),
        host,
        settings.serving.admin_port,
        bounds=replace(bounds, in_flight=PROBES_IN_FLIGHT),
        refused=observer.refused,
    )

    async def drain() -> None:
        gate.draining = True
        await asyncio.sleep(settings.serving.drain_seconds)

    return Service(
        {"reviews": reviews, "admin": admin, **keepers, **known.runnables}, reviews, admin, drain, journal, observer.settle
    )


def _bounds(serving: Serving) -> Bounds:
    """Return the bounds of a listener: no more connections than there are descriptors for, with two listeners."""
    return Bounds(min(serving.connections, raise_descriptor_limit() // 2), serving.in_flight_mib * MIB)


def _from_files(paths: Sequence[Path]) -> _Knowledge:
    state = load_state(read_manifests(paths))
    return _Knowledge(state.clusters, state.members, state.register, Shards(state.clusters, inf))


def _from_cluster(settings: Settings) -> _Knowledge:
    clusters, members = ClusterIndex(), Membership()
    cluster = ClusterState(_connection(settings.kubeconfig), clusters, members, settings.namespaces)
    discovery = Discovery(cluster.api, settings.scheduling.discovery_seconds)
    pace = PublishingPace(sweep=settings.scheduling.sweep_seconds)
    publisher = Publisher(cluster, clusters, members, pace) if settings.scheduling.publish else None
    cluster.beside["discovery"] = discovery
    if publisher is not None:
        discovery.subscribe(publisher.serve)
        cluster.beside["publisher"] = publisher
    return _Knowledge(
        clusters,
        members,
        AssumingRegister(members),
        Shards(clusters),
        cluster.reader,
        cluster.watches,
        discovery,
        publisher,
        {"worker pods": cluster.pods_synced, "RayClusters": cluster.clusters_synced, "discovery": lambda: discovery.answered},
        {"cluster": cluster},
    )


def _tell(pods: PodHandler, rays: RayHandler, *, pod_groups: bool) -> None:
    """Let pods be completed, and RayClusters be checked, by what the API server serves."""
    pods.policy = structs.replace(pods.policy, pod_groups=pod_groups)
    rays.settings = structs.replace(rays.settings, pod_groups=pod_groups)


def _connection(config: Path | None) -> Load:
    return kubeconfig(str(config)) if config else in_cluster()


def _keepers(tls: Tls, config: Path | None, context: SwappingContext, observer: CertificateObserver) -> dict[str, Runnable]:
    """Return what looks after the certificate. A pair in files has to be usable at the start. Raises CertificateError."""
    if tls.source == "files":
        files = CertificateFiles(tls.certificate, tls.key)
        keeper = Keeper(files, context, observer, tls.poll_seconds, tls.client_ca)
        keeper.take(files.read())
        return {"certificate": keeper}
    own = tls.self_signed
    vault = SecretVault(_connection(config), own.namespace, own.secret, own.mutating, own.validating)
    name = f"{own.service}.{own.namespace}.svc"
    source = SelfSigned(vault, [name, f"{name}.cluster.local"], ApiError)
    return {"certificate": Keeper(source, context, observer, tls.poll_seconds, tls.client_ca), "secret": vault}
