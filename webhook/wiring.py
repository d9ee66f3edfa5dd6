"""The composition root: from settings to a service of named runnables. No logic."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from time import time

from webhook.admission.pods import PodHandler
from webhook.admission.reviewer import Mutation
from webhook.cluster.client import in_cluster, kubeconfig
from webhook.cluster.errors import ApiError
from webhook.cluster.files import read_manifests
from webhook.cluster.secrets import SecretVault
from webhook.cluster.standalone import load_state
from webhook.runtime import Runnable
from webhook.serving.application import admin_application, review_application
from webhook.serving.endpoint import ReviewEndpoint
from webhook.serving.gate import Gate
from webhook.serving.server import HttpServer
from webhook.settings import Settings, Tls
from webhook.telemetry.certificates import CertificateObserver
from webhook.telemetry.journal import Journal, Sink
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.observer import ReviewObserver
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


def build(settings: Settings, sink: Sink) -> Service:
    """Return the service. Raises CertificateError, or ManifestError for the state."""
    state = load_state(read_manifests(settings.state))
    journal, metrics = Journal(sink), Metrics()
    metrics.gauge("ray_webhook_members", "Worker pods that hold a seat.", lambda: len(state.members))
    metrics.gauge("ray_webhook_assumed_seats", "Seats handed out whose pod was not seen yet.", lambda: state.members.assumed)
    metrics.gauge("ray_webhook_clusters", "RayClusters that are known.", lambda: len(state.clusters))
    observer = ReviewObserver(journal, metrics, quiet=settings.log.admissions == "denied")

    tls = SwappingContext(verify_clients=settings.tls.client_ca is not None)
    certificates = CertificateObserver(journal, metrics, lambda: tls.expires)
    keepers = _keepers(settings.tls, settings.kubeconfig, tls, certificates)
    gate = Gate({"certificate": lambda: tls.valid(time())}, {"certificate": certificates.expiry})

    pods = PodHandler(state.clusters, state.members, state.register)
    endpoints = {"/mutate": ReviewEndpoint(Mutation(pods), gate, observer)}
    host = settings.serving.host
    reviews = HttpServer(review_application(endpoints), host, settings.serving.port, tls.listening, settings.tls.client_names)
    admin = HttpServer(admin_application(gate, metrics.exposition), host, settings.serving.admin_port)

    async def drain() -> None:
        gate.draining = True
        await asyncio.sleep(settings.serving.drain_seconds)

    return Service({"reviews": reviews, "admin": admin, **keepers}, reviews, admin, drain, journal)


def _keepers(tls: Tls, config: Path | None, context: SwappingContext, observer: CertificateObserver) -> dict[str, Runnable]:
    """Return what looks after the certificate. A pair in files has to be usable at the start. Raises CertificateError."""
    if tls.source == "files":
        files = CertificateFiles(tls.certificate, tls.key)
        keeper = Keeper(files, context, observer, tls.poll_seconds, tls.client_ca)
        keeper.take(files.read())
        return {"certificate": keeper}
    own = tls.self_signed
    load = kubeconfig(str(config)) if config else in_cluster()
    vault = SecretVault(load, own.namespace, own.secret, own.mutating, own.validating)
    name = f"{own.service}.{own.namespace}.svc"
    source = SelfSigned(vault, [name, f"{name}.cluster.local"], ApiError)
    return {"certificate": Keeper(source, context, observer, tls.poll_seconds, tls.client_ca), "secret": vault}
