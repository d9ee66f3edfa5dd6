"""An API server without PodGroups, the default: RayClusters with the annotation run."""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.api import PODS, RAY_CLUSTERS, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import COMPONENTS, GROUPED, by, group_of, grouped
from tests.e2e.kuberay import Operator
from tests.e2e.process import lines
from tests.e2e.rays import scale, wait_for_workers, worker_of
from tests.e2e.webhook_process import Webhook
from webhook.groups.annotations import GRANULARITIES

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def in_vain(control_plane: ControlPlane) -> Iterator[Webhook]:
    with Webhook(control_plane, COMPONENTS) as running:
        yield running


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_who_creates_a_pod_is_warned_that_it_is_in_no_group(
    control_plane: ControlPlane, in_vain: Webhook, granularity: str
) -> None:
    assert in_vain.ready
    api, namespace = control_plane.api, control_plane.namespace(f"warned-{granularity}")
    cluster = api.create(
        RAY_CLUSTERS, grouped("one", {"workers": (1, 2)}, by(granularity)), namespace
    )

    answer = api.request("POST", PODS.path(namespace), worker_of(cluster))

    (warning,) = (each for each in answer.warnings if "scheduling group" in each)
    assert "GenericWorkload" in warning
    assert group_of(answer.body) is None
    control_plane.delete_ray_cluster("one", namespace)


def test_a_cluster_that_asks_for_groups_comes_up_and_scales_without(
    control_plane: ControlPlane, in_vain: Webhook
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("no-pod-groups")
    with Operator(control_plane):
        api.create(RAY_CLUSTERS, grouped("one", {"workers": (1, 4)}, GROUPED), namespace)
        wait_for_workers(api, namespace, 4)
        scale(api, "one", namespace, 2)
        pods = wait_for_workers(api, namespace, 8)

    assert set(map(group_of, pods)) == {None}
    assert [line for line in written(in_vain) if line["level"] != "info"] == []
    assert ["PodGroups are not served" in line["message"] for line in written(in_vain)].count(
        True
    ) == 1
    control_plane.delete_ray_cluster("one", namespace)


def written(webhook: Webhook) -> list[Json]:
    found = [json.loads(line) for line in lines(webhook.log) if line.startswith("{")]
    return [line for line in found if "verdict" not in line]
