"""Creation of many RayClusters at once, compared with the same without the webhook."""

from time import monotonic

import pytest

from tests.e2e import needs
from tests.e2e.api import RAY_CLUSTERS, Json, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kuberay import UNTHROTTLED, Operator
from tests.e2e.metrics import Histogram
from tests.e2e.rays import HOSTS, slices, stored, wait_for_workers, wrong_identities
from tests.e2e.waiting import until
from tests.e2e.webhook_process import Webhook
from tests.harness.identities import identity_of

pytestmark = pytest.mark.e2e

CLUSTERS, REPLICAS = 10, 25
WORKERS = CLUSTERS * REPLICAS * HOSTS
SECONDS = 600


@pytest.mark.parametrize(
    "flags", [(), UNTHROTTLED], ids=["as KubeRay is shipped", "KubeRay unthrottled"]
)
def test_no_identity_is_held_twice_among_a_thousand_pods_that_come_up_together(
    control_plane: ControlPlane, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    if flags:
        needs.CLIENT_RATE.ask()
    clusters = [slices(f"load-{number}", REPLICAS) for number in range(CLUSTERS)]
    kind = "fast" if flags else "shipped"
    without, _ = bring_up(control_plane, f"load-without-{kind}", clusters, flags)
    with Webhook(control_plane) as webhook:
        before = durations(control_plane)
        seconds, pods = bring_up(control_plane, f"load-with-{kind}", clusters, flags)
        measured = durations(control_plane).since(before)
        reviews = webhook.admissions()

    assert wrong_identities(pods, *clusters) == []
    assert len({identity_of(pod) for pod in pods} - {None}) == WORKERS
    assert measured.count >= WORKERS
    with capsys.disabled():
        print(f"\n  {WORKERS} workers of {CLUSTERS} RayClusters, operator concurrency 10, {kind}:")
        denied = sum(each["verdict"] == "denied" for each in reviews)
        print(
            f"  with the webhook    {seconds:6.1f} s  {WORKERS / seconds:6.0f} pods/s  ({denied} "
            "denied at first)"
        )
        print(f"  without the webhook {without:6.1f} s  {WORKERS / without:6.0f} pods/s")
        shares = ", ".join(
            f"p{share * 100:g} {measured.quantile(share) * 1000:.1f} ms"
            for share in (0.5, 0.9, 0.99)
        )
        print(f"  the webhook as the API server measures it, {measured.count} reviews: {shares}")
        own = sorted(each["ms"] for each in reviews)
        shares = ", ".join(
            f"p{share * 100:g} {own[int(share * len(own))]:.1f} ms" for share in (0.5, 0.9, 0.99)
        )
        print(f"  from a request read to its answer, as its log says: {shares}")


def bring_up(
    plane: ControlPlane, namespace: str, clusters: list[Json], flags: tuple[str, ...]
) -> tuple[float, Objects]:
    plane.namespace(namespace)
    with Operator(plane, multi_host_indexing=False, reconcile_concurrency=10, flags=flags):
        started = monotonic()
        for cluster in clusters:
            plane.api.create(RAY_CLUSTERS, cluster, namespace)
        until(
            lambda: stored(plane.api, namespace) >= WORKERS + CLUSTERS,
            f"{WORKERS} pods and {CLUSTERS} heads",
            SECONDS,
        )
        seconds = monotonic() - started
        pods = wait_for_workers(plane.api, namespace, WORKERS)
    for cluster in clusters:
        plane.delete_ray_cluster(cluster["metadata"]["name"], namespace)
    return seconds, pods


def durations(plane: ControlPlane) -> Histogram:
    exposition = plane.api.request("GET", "/metrics").body["message"]
    return Histogram.read(
        exposition,
        "apiserver_admission_webhook_admission_duration_seconds",
        name="pods.admission.ray.io",
    )
