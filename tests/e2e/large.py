"""A large cluster: 10,000 pods of 100 RayClusters are created and churned, with one process of the
webhook and with three. `python -m tests.e2e.figures large`.
"""

from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from tests.e2e.api import PODS, RAY_CLUSTERS, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.fleet import Fleet
from tests.e2e.kuberay import UNTHROTTLED, Operator
from tests.e2e.metrics import Histogram, samples
from tests.e2e.rays import HOSTS, slices, stored, workers, wrong_identities
from tests.e2e.waiting import until
from tests.lab.bench.memory import memory_of

CLUSTERS = 100
REPLICAS = 25
PODS_EACH = REPLICAS * HOSTS
LOST = 5
"""Pods of each RayCluster that are deleted at once, three times."""

SECONDS = 1800


class Sample(NamedTuple):
    """What was seen at a moment: seconds, CPU of all processes without that of probes, the API
    server's `/metrics`.
    """

    at: float
    cpu: float
    metrics: str


def large(processes: int, say: Callable[[str], None]) -> None:
    with ControlPlane(fsync=True) as plane, Fleet(plane, processes, 1.0) as fleet:
        namespace = plane.namespace("large")
        clusters = [slices(f"large-{number}", REPLICAS) for number in range(CLUSTERS)]
        idle = fleet.idle_cpu()
        first = _sample(plane, fleet, idle)
        with Operator(
            plane, multi_host_indexing=False, reconcile_concurrency=10, flags=UNTHROTTLED
        ):
            for cluster in clusters:
                plane.api.create(RAY_CLUSTERS, cluster, namespace)
            _until_whole(plane, namespace)
            second = _sample(plane, fleet, idle)
            _say(say, f"{processes} processes, up", first, second, CLUSTERS * PODS_EACH)
            for _ in range(3):
                _lose(plane, namespace)
                _until_whole(plane, namespace)
            third = _sample(plane, fleet, idle)
            _say(say, f"{processes} processes, churned", second, third, CLUSTERS * LOST * 3)
        wrong = wrong_identities(workers(plane.api, namespace), *clusters)
        held = [memory_of(member.pid) for member in fleet.members if member.pid is not None]
        say(f"  {len(wrong)} identities are wrong: {wrong[:3]}")
        say(f"  memory, and at most, in MiB: {[tuple(map(round, each)) for each in held]}")


def _until_whole(plane: ControlPlane, namespace: str) -> None:
    wanted = CLUSTERS * (PODS_EACH + 1)
    until(lambda: stored(plane.api, namespace) == wanted, f"{wanted} pods", SECONDS)


def _lose(plane: ControlPlane, namespace: str) -> None:
    found: dict[str, list[Json]] = {}
    for pod in workers(plane.api, namespace):
        found.setdefault(pod["metadata"]["labels"]["ray.io/cluster"], []).append(pod)
    for pods in found.values():
        for pod in pods[:: PODS_EACH // LOST]:
            plane.api.delete(PODS, pod["metadata"]["name"], namespace)


def _sample(plane: ControlPlane, fleet: Fleet, idle: float) -> Sample:
    now = monotonic()
    metrics = plane.api.request("GET", "/metrics").body["message"]
    return Sample(now, fleet.cpu - idle * now, metrics)


def _say(say: Callable[[str], None], name: str, before: Sample, after: Sample, pods: int) -> None:
    took, cpu = after.at - before.at, (after.cpu - before.cpu) / pods * 1e3
    waited = _reviews(after.metrics).since(_reviews(before.metrics))
    writes = (_writes(after.metrics) - _writes(before.metrics)) / pods
    say(
        f"{name}: {pods} pods in {took:.0f} s, CPU {cpu:.2f} ms a pod; the API server waited for "
        f"{waited.count} reviews, p50 {waited.quantile(0.5) * 1e3:.1f} ms, "
        f"p99 {waited.quantile(0.99) * 1e3:.1f} ms; {writes:.2f} writes of Leases a pod"
    )


def _reviews(metrics: str) -> Histogram:
    return Histogram.read(
        metrics,
        "apiserver_admission_webhook_admission_duration_seconds",
        name="pods.admission.ray.io",
        operation="CREATE",
    )


def _writes(metrics: str) -> float:
    return sum(
        count
        for labels, count in samples(metrics, "apiserver_request_total")
        if labels["resource"] == "leases" and labels["verb"] in {"POST", "PUT"}
    )
