"""The control plane itself: KubeRay creates pods in it, with and without its own indexing."""

import json
from time import sleep

import pytest

from tests.e2e.api import PODS, RAY_CLUSTERS, SERVICES, Api, ApiError
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kuberay import USER, Operator
from tests.e2e.rays import HOSTS, slices, wait_for_workers

pytestmark = pytest.mark.e2e

REPLICAS = 2
INDEX_LABELS = (
    "ray.io/worker-group-replica-index",
    "ray.io/worker-group-replica-name",
    "ray.io/replica-host-index",
)


def test_kuberay_labels_the_hosts_of_each_replica_when_its_gate_is_on(
    control_plane: ControlPlane,
) -> None:
    namespace = control_plane.namespace("gate-on")
    with Operator(control_plane, multi_host_indexing=True):
        control_plane.api.create(RAY_CLUSTERS, slices("tpu", REPLICAS), namespace)
        workers = wait_for_workers(control_plane.api, namespace, REPLICAS * HOSTS)

        identities = {
            tuple(pod["metadata"]["labels"][key] for key in INDEX_LABELS) for pod in workers
        }
        names = {name for _, name, _ in identities}
        assert {(index, host) for index, _, host in identities} == {
            (str(r), str(h)) for r in range(2) for h in range(4)
        }
        assert len(identities) == REPLICAS * HOSTS
        assert len(names) == REPLICAS
        assert "tpu-headless" in {
            each["metadata"]["name"] for each in control_plane.api.list(SERVICES, namespace)
        }

    control_plane.delete_ray_cluster("tpu", namespace)
    assert not control_plane.api.list(PODS, namespace)


def test_kuberay_says_nothing_about_hosts_when_its_gate_is_off(control_plane: ControlPlane) -> None:
    namespace = control_plane.namespace("gate-off")
    with Operator(control_plane, multi_host_indexing=False):
        control_plane.api.create(RAY_CLUSTERS, slices("tpu", REPLICAS), namespace)
        workers = wait_for_workers(control_plane.api, namespace, REPLICAS * HOSTS)
        sleep(1)  # a reconcile that counted wrong would create more

        stored = control_plane.api.list(PODS, namespace, "ray.io/node-type=worker")
        assert len(stored) == REPLICAS * HOSTS
        assert not [pod for pod in workers if set(INDEX_LABELS) & set(pod["metadata"]["labels"])]
        assert {pod["spec"].get("hostname") for pod in workers} == {None}

    control_plane.delete_ray_cluster("tpu", namespace)
    assert not control_plane.api.list(PODS, namespace)


def test_objects_outlive_a_restart_of_the_api_server(control_plane: ControlPlane) -> None:
    namespace = control_plane.namespace("restart")
    control_plane.api.create(RAY_CLUSTERS, slices("kept", REPLICAS), namespace)

    control_plane.stop_api_server()
    assert not control_plane.api.ok("/readyz")
    control_plane.start_api_server()

    assert (
        control_plane.api.get(RAY_CLUSTERS, "kept", namespace)["spec"]["workerGroupSpecs"][0][
            "numOfHosts"
        ]
        == HOSTS
    )
    control_plane.delete_ray_cluster("kept", namespace)


def test_kubectl_applies_a_ray_cluster(control_plane: ControlPlane) -> None:
    namespace = control_plane.namespace("kubectl")

    done = control_plane.kubectl(
        "apply", "-n", namespace, "-f", "-", stdin=json.dumps(slices("applied", REPLICAS))
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "raycluster.ray.io/applied created\n"
    control_plane.delete_ray_cluster("applied", namespace)


def test_a_user_without_a_role_may_do_nothing(control_plane: ControlPlane) -> None:
    stranger = Api.of_kubeconfig(control_plane.kubeconfig("stranger"))

    with pytest.raises(ApiError) as refusal:
        stranger.list(PODS, "default")

    assert refusal.value.code == 403
    assert "stranger" in refusal.value.status["message"]
    assert USER not in refusal.value.status["message"]
