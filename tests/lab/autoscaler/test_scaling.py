"""A RayCluster scaled by Ray's autoscaler: only complete slices are created and deleted, no
identity is reserved twice, and no update is refused.
"""

from collections.abc import Iterator

import pytest

from tests.e2e.api import EVENTS, RAY_CLUSTERS, Api, Json, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kuberay import Operator
from tests.e2e.rays import (
    HOSTS,
    example,
    identities,
    of_replica,
    replica_names,
    slices,
    wait_for_workers,
    whole,
    with_identity,
    workers,
)
from tests.e2e.waiting import until
from tests.e2e.webhook_process import Webhook
from tests.lab.autoscaler.provider import Provider

pytestmark = pytest.mark.e2e

GROUP = "tpu-group"


@pytest.fixture(scope="module", params=[False, True], ids=["gate off", "gate on"])
def indexing(
    request: pytest.FixtureRequest, control_plane: ControlPlane, webhook: Webhook
) -> Iterator[bool]:
    assert webhook.ready
    on: bool = request.param
    with Operator(control_plane, multi_host_indexing=on):
        yield on


def autoscaled(cluster: Json, version: str) -> Json:
    cluster["spec"] |= {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": version}}
    return cluster


def problems(api: Api, namespace: str) -> list[str]:
    return [event["note"] for event in api.list(EVENTS, namespace) if event["type"] == "Warning"]


def retried(namespace: str, *, on: bool) -> str:
    return f"{namespace}-{'on' if on else 'off'}"


def test_the_second_autoscaler_adds_slices_and_takes_one_from_the_middle(
    control_plane: ControlPlane, indexing: bool
) -> None:
    api, namespace = control_plane.api, control_plane.namespace(retried("slices", on=indexing))
    api.create(RAY_CLUSTERS, autoscaled(slices("one", 1), "v2"), namespace)
    wait_for_workers(api, namespace, HOSTS)
    with Provider(control_plane, "v2", "one", namespace) as autoscaler:
        assert autoscaler.launch(GROUP, 2 * HOSTS) == []
        three = wait_for_workers(api, namespace, 3 * HOSTS)
        assert identities(three) == whole(0, 1, 2)

        assert autoscaler.terminate(of_replica(three, 1)) == []
        left = wait_for_workers(api, namespace, 2 * HOSTS)
        assert identities(left) == whole(0, 2)
        assert autoscaler.workers() == names(left)

        assert autoscaler.launch(GROUP, HOSTS) == []
        again = wait_for_workers(api, namespace, 3 * HOSTS)
        assert identities(again) == whole(0, 1, 2)
        assert not replica_names(of_replica(again, 1)) & replica_names(three)
    assert problems(api, namespace) == []
    control_plane.delete_ray_cluster("one", namespace)


def test_an_idle_host_goes_with_its_slice_where_kuberay_knows_slices(
    control_plane: ControlPlane, indexing: bool
) -> None:
    api, namespace = control_plane.api, control_plane.namespace(retried("idle", on=indexing))
    api.create(RAY_CLUSTERS, autoscaled(slices("one", 3), "v2"), namespace)
    three = wait_for_workers(api, namespace, 3 * HOSTS)
    with Provider(control_plane, "v2", "one", namespace) as autoscaler:
        assert autoscaler.terminate([with_identity(three, 1, 2)]) == []
        if indexing:
            assert identities(wait_for_workers(api, namespace, 2 * HOSTS)) == whole(0, 2)
        else:  # KubeRay counts pods, and takes none that is not named
            left = wait_for_workers(api, namespace, 3 * HOSTS - 1)
            assert identities(left) == [
                identity for identity in whole(0, 1, 2) if identity != (1, 2)
            ]
            assert autoscaler.terminate(of_replica(left, 1)) == []
            assert identities(wait_for_workers(api, namespace, 2 * HOSTS)) == whole(0, 2)
        assert autoscaler.launch(GROUP, HOSTS) == []
        assert identities(wait_for_workers(api, namespace, 3 * HOSTS)) == whole(0, 1, 2)
    assert problems(api, namespace) == []
    control_plane.delete_ray_cluster("one", namespace)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_either_autoscaler_adds_and_takes_single_hosts(
    control_plane: ControlPlane, indexing: bool, version: str
) -> None:
    api, namespace = (
        control_plane.api,
        control_plane.namespace(retried(f"hosts-{version}", on=indexing)),
    )
    cluster = autoscaled(example("tpu-single-host-autoscaled"), version)
    (group,) = cluster["spec"]["workerGroupSpecs"]
    group |= {"replicas": 1, "minReplicas": 0, "maxReplicas": 10}
    name, node_type = cluster["metadata"]["name"], group["groupName"]
    api.create(RAY_CLUSTERS, cluster, namespace)
    wait_for_workers(api, namespace, 1)
    with Provider(control_plane, version, name, namespace) as autoscaler:
        assert autoscaler.launch(node_type, 3) == []
        four = wait_for_workers(api, namespace, 4)
        assert identities(four) == [(number, 0) for number in range(4)]

        assert autoscaler.terminate([with_identity(four, 1, 0)]) == []
        left = wait_for_workers(api, namespace, 3)
        assert identities(left) == [(0, 0), (2, 0), (3, 0)]
        assert names(workers(api, namespace)) == autoscaler.workers()

        assert autoscaler.launch(node_type, 1) == []
        assert identities(wait_for_workers(api, namespace, 4)) == [
            (number, 0) for number in range(4)
        ]
    assert problems(api, namespace) == []
    control_plane.delete_ray_cluster(name, namespace)


def test_the_first_autoscaler_takes_hosts_for_slices_and_identities_stay_exact(
    control_plane: ControlPlane, indexing: bool
) -> None:
    """It posts the number of pods as replicas: only `maxReplicas` is a bound."""
    api, namespace = control_plane.api, control_plane.namespace(retried("taken", on=indexing))
    api.create(RAY_CLUSTERS, autoscaled(slices("one", 1, most=3), "v1"), namespace)
    wait_for_workers(api, namespace, HOSTS)
    with Provider(control_plane, "v1", "one", namespace) as autoscaler:
        assert autoscaler.launch(GROUP, 1) == []
        three = wait_for_workers(api, namespace, 3 * HOSTS)
        assert identities(three) == whole(0, 1, 2)

        assert autoscaler.terminate([with_identity(three, 1, 2)]) == []
        until(
            lambda: not names(of_replica(three, 1)) & names(workers(api, namespace)),
            "the slice of the host goes",
        )
        after = wait_for_workers(
            api, namespace, 3 * HOSTS
        )  # and comes again, as there are more pods than slices
        assert identities(after) == whole(0, 1, 2)
        assert not replica_names(of_replica(after, 1)) & replica_names(three)
    assert problems(api, namespace) == []
    control_plane.delete_ray_cluster("one", namespace)


def names(pods: Objects) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}
