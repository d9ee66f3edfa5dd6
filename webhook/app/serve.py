"""The composition root of `serve`: builds a service of named runnables. No logic."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, time
from typing import Any

from msgspec import structs

from webhook.accelerators.devices import add_devices
from webhook.accelerators.profiles import add_profiles
from webhook.admission.binding_handler import BindingHandler
from webhook.admission.eviction_handler import EvictionHandler
from webhook.admission.pod_handler import PodHandler
from webhook.admission.ray_handler import RayHandler
from webhook.admission.reviewer import InTime, Mutation, ObjectReviewer
from webhook.admission.shard_handler import ShardHandler
from webhook.app.informers import Connected, connection, own_namespace, watch_metrics
from webhook.app.runtime import Process, Runnable, admin_server, apply_settings
from webhook.cache.kuberay_release import KubeRayStored
from webhook.cache.live import ClusterState, LiveReader
from webhook.cache.nodes import NodeLabels
from webhook.cache.quota_watches import NamespaceQuotas
from webhook.certs.certificate_watcher import (
    CertificateFiles,
    CertificateSource,
    CertificateWatcher,
)
from webhook.certs.context import SwappingContext
from webhook.certs.self_signed import SelfSigned
from webhook.config.configuration import Settings
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_index import Membership
from webhook.httpserver.application import (
    Condition,
    Readiness,
)
from webhook.httpserver.protocol import PortLimits
from webhook.httpserver.review_routes import Reviewer, in_time, review_application
from webhook.httpserver.review_threads import ReviewThreads
from webhook.httpserver.server import HttpServer
from webhook.kubeclient.client import Api
from webhook.kubeclient.discovery import (
    Discovery,
    DomainsServed,
    KubernetesRelease,
    PodGroupsServed,
)
from webhook.kubeclient.reservation_leases import LeaseStore
from webhook.kubeclient.secrets import SecretStore
from webhook.kubeclient.timeouts import DISCOVERY_SECONDS
from webhook.logging.log import Output
from webhook.manifest.reader import Manifest
from webhook.manifest.standalone import load_state
from webhook.metrics import table
from webhook.metrics.collector import Metrics
from webhook.metrics.observers import ReviewCounts, ReviewObserver
from webhook.mutation.pod_scheduling import ZONES_SINCE
from webhook.mutation.ray_pod import Policy
from webhook.reservation.identities import Identities
from webhook.reservation.reservations import Reservations, standalone
from webhook.validation.finding import KubeRay


@dataclass(frozen=True)
class _Cluster:
    """The caches of the cluster, the tasks that fill them, and the conditions of readiness."""

    clusters: ClusterIndex
    members: Membership
    identities: Identities
    reservations: Reservations
    """Of shard indices."""
    reader: LiveReader | None = None
    runnables: Mapping[str, Runnable] = field(default_factory=dict)
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    inform: Callable[[PodHandler, RayHandler], None] | None = None
    """Updates handlers with the APIs that the API server serves; None if standalone."""
    bindings: BindingHandler | None = None
    evictions: EvictionHandler | None = None
    quotas: NamespaceQuotas | None = None


def build(
    settings: Settings,
    output: Output,
    state: Sequence[Manifest] = (),
    *,
    discovery: float = DISCOVERY_SECONDS,
) -> Process:
    """Return the service; standalone, it begins with `state`. Discovery of the served APIs is
    repeated every `discovery` seconds.

    Raises CertificateError, or ManifestError for the state.
    """
    log, metrics = apply_settings(settings, output, "serve")
    cluster = (
        _standalone(settings, state)
        if settings.standalone
        else _build_watched_cluster(settings, metrics, discovery)
    )
    metrics.expose(table.MEMBERS, lambda: len(cluster.members))
    metrics.expose(table.CLUSTERS, lambda: len(cluster.clusters))
    observer = ReviewObserver(log, ReviewCounts(metrics), quiet=settings.log.admissions == "denied")
    tls = SwappingContext(
        verify_clients=settings.tls.client_ca is not None,
        min_version=settings.tls.min_version,
        cipher_suites=settings.tls.cipher_suites,
    )
    keepers = _certificate_tasks(settings, tls, metrics)
    gate = Readiness(
        {"certificate": lambda: tls.valid(time()), **cluster.conditions},
        {"certificate": tls.expiry, "undecided reviews": observer.undecided_reviews},
    )
    threads = ReviewThreads()
    reviews = HttpServer(
        review_application(_reviewers(settings, cluster, metrics, threads), gate, observer),
        settings.listen.host,
        settings.serving.port,
        tls.listening,
        limits=PortLimits(client_names=frozenset(settings.tls.client_names)),
        refused=observer.refused,
    )

    def exposition() -> tuple[bytes, str]:
        observer.flush()
        return metrics.exposition()

    admin = admin_server(settings, gate, exposition, observer.refused)

    async def drain() -> None:
        await gate.drain()
        await asyncio.sleep(settings.serving.drain_seconds)

    servers: dict[str, Runnable] = {"reviews": reviews, "admin": admin}
    runnables = {**servers, "review threads": threads, **keepers, **cluster.runnables}
    return Process(runnables, (reviews, admin), drain=drain, log=log, flush=observer.flush)


def _reviewers(
    settings: Settings, cluster: _Cluster, metrics: Metrics, threads: ReviewThreads
) -> dict[str, Reviewer]:
    ignoring = settings.ignore.rayclusters
    components = settings.installation.components
    pod_groups_enabled = "pod-groups" in components or settings.standalone
    metrics.expose(table.SCHEDULING_ENABLED, lambda: pod_groups_enabled)
    policy = Policy(
        cluster.inform is None,
        pod_groups_enabled,
        apart=settings.affinity.apart,
        drain_seconds=settings.termination.drain_seconds,
        zones=settings.topology.zones == "on",
        node_labels=None if settings.standalone else frozenset(settings.topology.node_labels),
        keep_nodes=settings.disruption.keep_nodes,
        raise_wait_gcs_ready=settings.startup.raise_wait_gcs_ready,
        devices=add_devices(settings.devices),
        profiles=add_profiles(settings.profiles),
    )
    pods = PodHandler(cluster.clusters, cluster.identities, policy)
    rays = RayHandler(settings.validation.rules(ignoring=ignoring))
    rays.settings = structs.replace(
        rays.settings,
        node_labels=policy.node_labels,
        repairs="repair" in components,
        raise_wait_gcs_ready=policy.raise_wait_gcs_ready,
        namespaces=cluster.quotas,
        devices=policy.devices,
        profiles=policy.profiles,
    )
    if cluster.inform is not None:
        cluster.inform(pods, rays)
    shards = ShardHandler(cluster.clusters, cluster.reservations)
    metrics.expose(table.CACHE_HITS, lambda: {"patches": pods.patches.hits})
    metrics.expose(table.CACHE_MISSES, lambda: {"patches": pods.patches.misses})
    # Without a cluster, no review waits, and a timer costs as much as the template.
    timer: dict[str, InTime] = {} if settings.standalone else {"in_time": in_time}
    mutation = Mutation(pods, cluster.reader, shards, in_thread=threads, ignoring=ignoring, **timer)
    mutation.bindings = cluster.bindings
    validation = ObjectReviewer(rays, cluster.evictions, in_thread=threads, **timer)
    return {"/mutate": mutation, "/validate": validation}


def _standalone(settings: Settings, manifests: Sequence[Manifest]) -> _Cluster:
    state = load_state(manifests, ignoring=settings.ignore.rayclusters)
    for problem in state.outdated:
        raise problem
    reservations = standalone(Membership(), state.clusters)
    return _Cluster(state.clusters, state.members, state.identities, reservations)


def _build_watched_cluster(settings: Settings, metrics: Metrics, seconds: float) -> _Cluster:
    clusters, members = ClusterIndex(ignoring=settings.ignore.rayclusters), Membership()
    api = Api(connection(settings.kubeconfig))
    cluster = ClusterState(api, clusters, members, settings.namespaces)
    watch_metrics(metrics, lambda: cluster.watches)
    metrics.expose(table.LIVE_READS, lambda: cluster.reader.reads)
    metrics.expose(table.LIVE_READ_FAILURES, lambda: cluster.reader.failures)
    metrics.expose(table.MALFORMED_IDENTITIES, lambda: cluster.malformed)
    store = LeaseStore(api, own_namespace(settings.installation.namespace))
    reservations = Reservations(store, cluster.reader, members, clusters)
    _reservation_metrics(metrics, reservations)
    discoveries, inform = _discoveries(settings, api, seconds)
    parts: dict[str, Runnable] = {"watches": cluster, "reservations": store, **discoveries}
    bindings = None
    if settings.topology.node_labels:
        parts["nodes"] = nodes = NodeLabels(api, settings.topology.node_labels)
        bindings = BindingHandler(nodes.labels)
    quotas = None
    if settings.validation.quotas:
        parts["quotas"] = quotas = NamespaceQuotas(api, settings.namespaces, clusters, members)
    default = settings.disruption.max_disrupted_replicas
    evictions = EvictionHandler(
        clusters, members, reader=cluster.reader, default=default, clock=monotonic
    )
    metrics.expose(table.EVICTIONS, lambda: evictions.counts)
    return _Cluster(
        clusters,
        members,
        identities=Identities(reservations),
        reservations=reservations,
        reader=cluster.reader,
        runnables={"cluster": Connected(api, parts)},
        conditions={
            "worker pods": cluster.pods_synced,
            "RayClusters": cluster.clusters_synced,
            "Leases": lambda: store.accepted,
            **{
                name: partial(getattr, discovery, "answered")
                for name, discovery in discoveries.items()
            },
        },
        inform=inform,
        bindings=bindings,
        evictions=evictions,
        quotas=quotas,
    )


def _discoveries(
    settings: Settings, api: Api, seconds: float
) -> tuple[dict[str, Discovery[Any]], Callable[[PodHandler, RayHandler], None]]:
    """Return the discoveries by name, and a function that updates handlers with their results."""
    pod_groups = Discovery(PodGroupsServed(api), seconds)
    kuberay = Discovery(KubeRayStored(api), seconds)
    kubernetes = Discovery(KubernetesRelease(api), seconds)
    domains = Discovery(DomainsServed(api), seconds)
    discoveries: dict[str, Discovery[Any]] = {
        "discovery": pod_groups,
        "release of Kubernetes": kubernetes,
    }
    if not settings.validation.kuberay:
        discoveries["release of KubeRay"] = kuberay
    if "compute-domains" in settings.installation.components:
        discoveries["ComputeDomains"] = domains

    def inform(pods: PodHandler, rays: RayHandler) -> None:
        def update_both(**served: object) -> None:
            pods.policy = structs.replace(pods.policy, **served)
            rays.settings = structs.replace(rays.settings, **served)

        def set_kubernetes(release: tuple[int, int] | None) -> None:
            rays.settings = structs.replace(rays.settings, kubernetes=release)
            if settings.topology.zones == "auto":
                zones = release is not None and release >= ZONES_SINCE
                pods.policy = structs.replace(pods.policy, zones=zones)

        def set_kuberay(release: KubeRay | None) -> None:
            rays.settings = structs.replace(rays.settings, kuberay=release)

        update_both(
            no_domains="the webhook's setting installation.components lacks compute-domains"
        )
        domains.subscribe(
            lambda found: update_both(no_domains="" if found else DomainsServed.missing)
        )
        pod_groups.subscribe(lambda found: update_both(pod_groups=found is not None))
        kuberay.subscribe(set_kuberay)
        kubernetes.subscribe(set_kubernetes)

    return discoveries, inform


def _reservation_metrics(metrics: Metrics, reservations: Reservations) -> None:
    counts, outcomes = reservations.counts, ("reserved", "repeated", "denied", "unavailable")
    metrics.expose(table.RESERVATIONS, lambda: {outcome: counts[outcome] for outcome in outcomes})
    metrics.expose(table.RESERVATION_SECONDS, lambda: reservations.seconds)
    metrics.expose(table.RESERVATION_WRITES, lambda: counts["writes"])
    metrics.expose(table.RESERVATION_CONFLICTS, lambda: counts["conflicts"])
    metrics.expose(table.RESERVATION_LISTS, lambda: counts["lists"])
    metrics.expose(table.RESERVATIONS_UNSEEN, lambda: reservations.unseen)


def _certificate_tasks(
    settings: Settings, context: SwappingContext, metrics: Metrics
) -> dict[str, Runnable]:
    """Return the tasks that manage the certificate. A certificate in files has to be usable at the
    start. Raises CertificateError or ConfigurationError.
    """
    tls = settings.tls

    def watching(source: CertificateSource) -> CertificateWatcher:
        watcher = CertificateWatcher(source, context, tls.client_ca)
        metrics.expose(table.CERTIFICATE_EXPIRY, lambda: context.expires)
        metrics.expose(table.CERTIFICATE_LOADS, lambda: watcher.loads)
        metrics.expose(table.CERTIFICATE_REJECTED, lambda: watcher.problem != "")
        return watcher

    if tls.source == "files":
        files = CertificateFiles(tls.cert_dir / "tls.crt", tls.cert_dir / "tls.key")
        watcher = watching(files)
        watcher.take(files.read())
        return {"certificate": watcher}
    installation, namespace = settings.installation, own_namespace(settings.installation.namespace)
    api = Api(connection(settings.kubeconfig))
    # The API server verifies the name `<service>.<namespace>.svc`, whatever the domain of the
    # cluster.
    name = f"{installation.name}.{namespace}.svc"
    secret_store = SecretStore(api, namespace, installation.name)
    watcher = watching(SelfSigned(secret_store, [name, f"{name}.cluster.local"]))
    return {"certificate": Connected(api, {"certificate": watcher})}
