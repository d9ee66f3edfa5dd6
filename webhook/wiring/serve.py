"""The composition root of `serve`: from settings to a service of named runnables. No logic."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from time import time

from msgspec import structs

from webhook.admission.pods import Identities as GivesIdentities
from webhook.admission.pods import PodHandler
from webhook.admission.rays import RayHandler
from webhook.admission.resize import ResizeHandler
from webhook.admission.reviewer import Mutation, Validation
from webhook.admission.shards import Indices as GivesIndices
from webhook.admission.shards import ShardHandler
from webhook.follow.discovery import Discovery, KubernetesRelease, PodGroupsServed
from webhook.follow.errors import ApiError
from webhook.follow.kuberay import KubeRayStored
from webhook.follow.reader import LiveReader
from webhook.follow.registration import FailurePolicy
from webhook.follow.reservation_leases import LeaseStore
from webhook.follow.secrets import SecretVault
from webhook.follow.state import ClusterState, Known
from webhook.follow.timing import DISCOVERY_SECONDS
from webhook.groups.clusters import ClusterIndex
from webhook.groups.membership import Membership
from webhook.http.application import admin_application, review_application
from webhook.http.limits import Limits
from webhook.http.server import HttpServer
from webhook.manifest.reader import Manifest
from webhook.manifest.standalone import load_state
from webhook.mutation.locality import ZONES_SINCE
from webhook.mutation.policy import Policy
from webhook.reservation.identities import Identities
from webhook.reservation.indices import Indices, standalone_indices
from webhook.reservation.reservations import Reservations, Times
from webhook.runtime import Runnable
from webhook.serving.budget import BodyBudget
from webhook.serving.endpoint import ReviewEndpoint
from webhook.serving.gate import Condition, Gate
from webhook.serving.thread import ReviewThread
from webhook.settings import Settings
from webhook.telemetry import table
from webhook.telemetry.certificates import CertificateObserver
from webhook.telemetry.log import Log, Output, follow_logs
from webhook.telemetry.metrics import Metrics, PacedScrapes
from webhook.telemetry.observer import ReviewObserver
from webhook.telemetry.readable import form_of
from webhook.telemetry.reviews import ReviewCounts
from webhook.tls.certificate_files import CertificateFiles
from webhook.tls.context import SwappingContext
from webhook.tls.keeper import Keeper
from webhook.tls.selfsigned import SelfSigned
from webhook.validation.finding import KubeRay
from webhook.wiring.connection import connection, own_namespace
from webhook.wiring.following import follow_metrics


@dataclass(frozen=True)
class Service:
    """Everything that runs, by name, and what a stop does first."""

    runnables: dict[str, Runnable]
    reviews: HttpServer
    admin: HttpServer
    drain: Callable[[], Awaitable[None]]
    log: Log
    flush: Callable[[], None]
    """Writes what the log has still to tell of reviews."""


@dataclass(frozen=True)
class _Knowledge:
    """What is known of the cluster, and how it is kept."""

    clusters: ClusterIndex
    members: Membership
    identities: GivesIdentities
    indices: GivesIndices
    reader: LiveReader | None = None
    reservations: Reservations | None = None
    cluster: ClusterState | None = None
    discovery: Discovery[str] | None = None
    release: Discovery[KubeRay] | None = None
    kubernetes: Discovery[tuple[int, int]] | None = None
    conditions: dict[str, Condition] = field(default_factory=dict)
    runnables: dict[str, Runnable] = field(default_factory=dict)


def build(
    settings: Settings,
    output: Output,
    state: Sequence[Manifest] = (),
    *,
    discovery: float = DISCOVERY_SECONDS,
) -> Service:
    """Return the service; standalone, it begins with `state`. Every `discovery` seconds, it asks
    the API server what it serves.

    Raises CertificateError, or ManifestError for the state.
    """
    ignoring = settings.ignore.rayclusters
    known = (
        _standing_in(state, ignoring=ignoring)
        if settings.standalone
        else _from_cluster(settings, discovery)
    )
    log, metrics = Log(output, form=form_of(settings.log.format, output)), Metrics("serve")
    metrics.expose(table.MEMBERS, lambda: len(known.members))
    metrics.expose(table.CLUSTERS, lambda: len(known.clusters))
    if known.cluster is not None:
        follow_metrics(metrics, known.cluster)
    if known.reservations is not None:
        _reservation_metrics(metrics, known.reservations)
    kept = settings.scheduling.publish or settings.standalone
    metrics.expose(table.SCHEDULING_KEPT, lambda: kept)
    observer = ReviewObserver(log, ReviewCounts(metrics), quiet=settings.log.admissions == "denied")
    follow_logs(log)

    tls = SwappingContext(verify_clients=settings.tls.client_ca is not None)
    certificates = CertificateObserver(log, metrics, lambda: tls.expires)
    keepers = _keepers(settings, tls, certificates)
    gate = Gate(
        {"certificate": lambda: tls.valid(time()), **known.conditions},
        {"certificate": certificates.expiry, "undecided reviews": observer.undecided_reviews},
    )

    policy = Policy(
        known.discovery is None,
        kept,
        settings.resize.policy,
        settings.affinity.apart,
        settings.termination.drain_seconds,
        settings.topology.zones == "on",
    )
    pods = PodHandler(known.clusters, known.identities, policy)
    rays = RayHandler(settings.validation.rules(ignoring=ignoring))
    if known.discovery is not None:
        known.discovery.subscribe(lambda version: _tell(pods, rays, pod_groups=version is not None))
    if known.release is not None:
        known.release.subscribe(lambda release: _go_by(rays, release))
    if known.kubernetes is not None:
        known.kubernetes.subscribe(lambda release: _place(pods, release))
    shards, resize = (
        ShardHandler(known.clusters, known.indices),
        ResizeHandler(known.clusters, settings.resize.beyond),
    )
    apart = ReviewThread()
    mutation = Mutation(pods, known.reader, shards, apart=apart, ignoring=ignoring)
    validation = Validation(rays, resize, known.reader, apart=apart)
    metrics.expose(table.CACHE_HITS, lambda: {"patches": pods.patches.hits})
    metrics.expose(table.CACHE_MISSES, lambda: {"patches": pods.patches.misses})
    budget = BodyBudget()
    endpoints = {
        "/mutate": ReviewEndpoint(mutation, gate, observer, budget),
        "/validate": ReviewEndpoint(validation, gate, observer, budget),
    }

    def exposition() -> tuple[bytes, str]:
        observer.flush()
        return metrics.exposition()

    host = settings.listen.host
    reviews = HttpServer(
        review_application(endpoints),
        host,
        settings.serving.port,
        tls.listening,
        limits=Limits(client_names=frozenset(settings.tls.client_names)),
        refused=observer.refused,
    )
    admin = HttpServer(
        admin_application(gate, PacedScrapes(exposition)),
        host,
        settings.listen.admin_port,
        refused=observer.refused,
    )

    async def drain() -> None:
        gate.draining = True
        await asyncio.sleep(settings.serving.drain_seconds)

    return Service(
        {"reviews": reviews, "admin": admin, **keepers, **_closing(settings), **known.runnables},
        reviews,
        admin,
        drain,
        log,
        observer.flush,
    )


def _reservation_metrics(metrics: Metrics, reservations: Reservations) -> None:
    counters = reservations.counters
    outcomes = ("reserved", "repeated", "denied", "unavailable")
    metrics.expose(table.RESERVATIONS, lambda: {each: getattr(counters, each) for each in outcomes})
    metrics.expose(table.RESERVATION_SECONDS, lambda: counters.seconds)
    metrics.expose(table.RESERVATION_WRITES, lambda: counters.writes)
    metrics.expose(table.RESERVATION_CONFLICTS, lambda: counters.conflicts)
    metrics.expose(table.RESERVATION_LISTS, lambda: counters.lists)
    metrics.expose(table.RESERVATIONS_UNSEEN, lambda: reservations.unseen)


def _standing_in(manifests: Sequence[Manifest], *, ignoring: bool) -> _Knowledge:
    state = load_state(manifests, ignoring=ignoring)
    indices = standalone_indices(state.clusters)
    return _Knowledge(state.clusters, state.members, state.identities, indices)


def _from_cluster(settings: Settings, seconds: float) -> _Knowledge:
    clusters, members = ClusterIndex(ignoring=settings.ignore.rayclusters), Membership()
    cluster = ClusterState(
        connection(settings.kubeconfig), Known(clusters, members), settings.namespaces
    )
    store = LeaseStore(cluster.api, own_namespace(settings.installation.namespace))
    reservations = Reservations(store, Times(cluster.api.server_time.now))
    cluster.beside["reservations"] = store
    discovery = Discovery(PodGroupsServed(cluster.api), seconds)
    release = Discovery(KubeRayStored(cluster.api), seconds)
    cluster.beside["discovery"] = discovery
    kubernetes = Discovery(KubernetesRelease(cluster.api), seconds)
    if not settings.validation.kuberay:
        cluster.beside["release"] = release
    if settings.topology.zones == "auto":
        cluster.beside["kubernetes"] = kubernetes
    return _Knowledge(
        clusters,
        members,
        Identities(members, cluster.reader, reservations),
        Indices(clusters, cluster.reader, reservations),
        cluster.reader,
        reservations,
        cluster,
        discovery,
        release,
        kubernetes,
        {
            "worker pods": cluster.pods_synced,
            "RayClusters": cluster.clusters_synced,
            "Leases": lambda: store.accepted,
            "discovery": lambda: discovery.answered,
            "release of KubeRay": lambda: release.answered or "release" not in cluster.beside,
            "release of Kubernetes": lambda: (
                kubernetes.answered or "kubernetes" not in cluster.beside
            ),
        },
        {"cluster": cluster},
    )


def _tell(pods: PodHandler, rays: RayHandler, *, pod_groups: bool) -> None:
    """Let pods be completed, and RayClusters be checked, by what the API server serves."""
    pods.policy = structs.replace(pods.policy, pod_groups=pod_groups)
    rays.settings = structs.replace(rays.settings, pod_groups=pod_groups)


def _place(pods: PodHandler, release: tuple[int, int] | None) -> None:
    """Let pods know zone and region where this release of Kubernetes tells them."""
    pods.policy = structs.replace(pods.policy, zones=release is not None and release >= ZONES_SINCE)


def _go_by(rays: RayHandler, release: KubeRay | None) -> None:
    """Let Ray objects be checked as this release of KubeRay does."""
    rays.settings = structs.replace(rays.settings, kuberay=release)


def _closing(settings: Settings) -> dict[str, Runnable]:
    """Return what lets the webhook configurations fail closed, where that is asked for."""
    own = settings.installation
    if not own.fail_closed:
        return {}
    namespace = own_namespace(own.namespace)
    policy = FailurePolicy(connection(settings.kubeconfig), namespace, own.name)
    return {"failure policy": policy}


def _keepers(
    settings: Settings, context: SwappingContext, observer: CertificateObserver
) -> dict[str, Runnable]:
    """Return what looks after the certificate. A pair in files has to be usable at the start.
    Raises CertificateError, or ConfigurationError.
    """
    tls = settings.tls
    if tls.source == "files":
        files = CertificateFiles(tls.certificate, tls.key)
        keeper = Keeper(files, context, observer, tls.client_ca)
        keeper.take(files.read())
        return {"certificate": keeper}
    own, namespace = settings.installation, own_namespace(settings.installation.namespace)
    vault = SecretVault(connection(settings.kubeconfig), namespace, own.name)
    name = f"{own.name}.{namespace}.svc"
    source = SelfSigned(vault, [name, f"{name}.cluster.local"], ApiError)
    return {
        "certificate": Keeper(source, context, observer, tls.client_ca),
        "secret": vault,
    }
