"""An API server without PodGroups, the default: RayClusters with the annotation run."""

import pytest

from tests.e2e.api import PODS, RAY_CLUSTERS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import COMPONENTS, GROUPED, group_of, grouped
from tests.e2e.kuberay import Operator
from tests.e2e.process import records
from tests.e2e.rays import scale, wait_for_workers, worker_of
from tests.e2e.webhook_process import Webhook

pytestmark = pytest.mark.e2e

VALUES = COMPONENTS


def test_a_cluster_that_asks_for_groups_comes_up_and_scales_without(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("no-pod-groups")
    cluster = grouped("one", {"workers": (1, 4)}, GROUPED)
    pod = worker_of(api.create(RAY_CLUSTERS, cluster, namespace))
    warnings = api.request("POST", PODS.path(namespace), pod, query={"dryRun": "All"}).warnings
    (warning,) = (each for each in warnings if "scheduling group" in each)
    assert "GenericWorkload" in warning
    with Operator(control_plane):
        wait_for_workers(api, namespace, 4)
        scale(api, "one", namespace, 2)
        pods = wait_for_workers(api, namespace, 8)

    assert set(map(group_of, pods)) == {None}
    written = [line for line in records(webhook.log) if "verdict" not in line]
    assert {line["level"] for line in written} == {"info"}
    assert ["PodGroups are not served" in line["message"] for line in written].count(True) == 1
