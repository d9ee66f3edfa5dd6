"""Creation of many RayClusters at once."""

import pytest

from tests.e2e import needs
from tests.e2e.api import RAY_CLUSTERS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kuberay import UNTHROTTLED, Operator
from tests.e2e.rays import HOSTS, slices, stored, wait_for_workers, wrong_identities
from tests.e2e.waiting import until
from tests.harness.identities import identity_of

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("webhook")]

CLUSTERS, REPLICAS = 10, 25
WORKERS = CLUSTERS * REPLICAS * HOSTS
SECONDS = 600


def test_no_identity_is_held_twice_among_a_thousand_pods_that_come_up_together(
    control_plane: ControlPlane,
) -> None:
    flags = UNTHROTTLED if needs.CLIENT_RATE.is_met else ()
    clusters = [slices(f"load-{number}", REPLICAS) for number in range(CLUSTERS)]
    api, namespace = control_plane.api, control_plane.namespace("load")
    with Operator(control_plane, multi_host_indexing=False, reconcile_concurrency=10, flags=flags):
        for cluster in clusters:
            api.create(RAY_CLUSTERS, cluster, namespace)
        enough = WORKERS + CLUSTERS  # with their heads
        until(lambda: stored(api, namespace) >= enough, f"{enough} pods", SECONDS)
        pods = wait_for_workers(api, namespace, WORKERS)
    assert wrong_identities(pods, *clusters) == []
    assert len({identity_of(pod) for pod in pods} - {None}) == WORKERS
    for cluster in clusters:
        control_plane.delete_ray_cluster(cluster["metadata"]["name"], namespace)
