"""A RayCluster scaled by Ray's autoscaler: only complete slices are created and deleted, no
identity is reserved twice, and no update is refused.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.e2e.api import EVENTS, RAY_CLUSTERS, Api, Json, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.credentials import MASTERS
from tests.e2e.kuberay import Operator
from tests.e2e.rays import (
    HOSTS,
    example,
    identities,
    names_of,
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
from tests.lab.facts.wheel import INTERPRETER
from tests.lab.program import Program

pytestmark = pytest.mark.e2e

GROUP = "tpu-group"


DRIVER: Final = Path(__file__).parent / "inside_ray.py"


class Provider(Program):
    """Runs on entry, ends on exit. `version` is v1 or v2; each step gives what went wrong."""

    def __init__(self, plane: ControlPlane, version: str, cluster: str, namespace: str) -> None:
        user = json.loads(
            plane.kubeconfig(f"autoscaler-{cluster}-{namespace}", [MASTERS]).read_text()
        )["users"][0]["user"]
        server = urlsplit(plane.server)
        environment = {
            **os.environ,
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT_HTTPS": str(server.port),
            "RAY_KUBERAY_CLIENT_CERT_PATH": user["client-certificate"],
            "RAY_KUBERAY_CLIENT_KEY_PATH": user["client-key"],
            "RAY_KUBERAY_CA_CERT_PATH": str(plane.credentials.ca),
        }
        super().__init__(INTERPRETER, DRIVER, version, cluster, namespace, env=environment)

    def launch(self, group: str, count: int) -> list[str]:
        return self.answer({"do": "launch", "group": group, "count": count}, list[str])

    def terminate(self, pods: Objects) -> list[str]:
        return self.answer({"do": "terminate", "pods": [*names_of(pods)]}, list[str])

    def workers(self) -> set[str]:
        return self.answer({"do": "workers"}, set[str])


@pytest.fixture(scope="module", params=[False, True], ids=["gate off", "gate on"])
def indexing(
    request: pytest.FixtureRequest, control_plane: ControlPlane, webhook: Webhook
) -> Iterator[bool]:
    assert webhook.ready
    on: bool = request.param
    with Operator(control_plane, multi_host_indexing=on):
        yield on


class Scaled(NamedTuple):
    """A RayCluster, and the autoscaler that scales it."""

    provider: Provider
    api: Api
    namespace: str

    def wait(self, count: int) -> Objects:
        return wait_for_workers(self.api, self.namespace, count)

    def workers(self) -> set[str]:
        return names_of(workers(self.api, self.namespace))


@contextmanager
def scaled(
    plane: ControlPlane, story: str, cluster: Json, version: str, *, on: bool
) -> Iterator[Scaled]:
    """Create a RayCluster in its own namespace, where nothing may cause a warning."""
    namespace = plane.namespace(f"{story}-{'on' if on else 'off'}")
    cluster["spec"] |= {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": version}}
    plane.api.create(RAY_CLUSTERS, cluster, namespace)
    name = cluster["metadata"]["name"]
    wait_for_workers(plane.api, namespace, pod_count(cluster))
    with Provider(plane, version, name, namespace) as provider:
        yield Scaled(provider, plane.api, namespace)
    warned = [each for each in plane.api.list(EVENTS, namespace) if each["type"] == "Warning"]
    assert [event["note"] for event in warned] == []
    plane.delete_ray_cluster(name, namespace)


def pod_count(cluster: Json) -> int:
    (group,) = cluster["spec"]["workerGroupSpecs"]
    return int(group["replicas"]) * int(group["numOfHosts"])


def test_the_second_autoscaler_adds_slices_and_takes_one_from_the_middle(
    control_plane: ControlPlane, indexing: bool
) -> None:
    with scaled(control_plane, "slices", slices("one", 1), "v2", on=indexing) as story:
        assert story.provider.launch(GROUP, 2 * HOSTS) == []
        three = story.wait(3 * HOSTS)
        assert identities(three) == whole(0, 1, 2)

        assert story.provider.terminate(of_replica(three, 1)) == []
        left = story.wait(2 * HOSTS)
        assert identities(left) == whole(0, 2)
        assert story.provider.workers() == names_of(left)

        assert story.provider.launch(GROUP, HOSTS) == []
        again = story.wait(3 * HOSTS)
        assert identities(again) == whole(0, 1, 2)
        assert not replica_names(of_replica(again, 1)) & replica_names(three)


def test_an_idle_host_goes_with_its_slice_where_kuberay_knows_slices(
    control_plane: ControlPlane, indexing: bool
) -> None:
    with scaled(control_plane, "idle", slices("one", 3), "v2", on=indexing) as story:
        three = story.wait(3 * HOSTS)
        assert story.provider.terminate([with_identity(three, 1, 2)]) == []
        if not indexing:  # KubeRay counts pods, and takes none that is not named
            left = story.wait(3 * HOSTS - 1)
            assert identities(left) == [each for each in whole(0, 1, 2) if each != (1, 2)]
            assert story.provider.terminate(of_replica(left, 1)) == []
        assert identities(story.wait(2 * HOSTS)) == whole(0, 2)
        assert story.provider.launch(GROUP, HOSTS) == []
        assert identities(story.wait(3 * HOSTS)) == whole(0, 1, 2)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_either_autoscaler_adds_and_takes_single_hosts(
    control_plane: ControlPlane, indexing: bool, version: str
) -> None:
    cluster = example("tpu-single-host-autoscaled")
    (group,) = cluster["spec"]["workerGroupSpecs"]
    group |= {"replicas": 1, "minReplicas": 0, "maxReplicas": 10}
    with scaled(control_plane, f"hosts-{version}", cluster, version, on=indexing) as story:
        assert story.provider.launch(group["groupName"], 3) == []
        four = story.wait(4)
        assert identities(four) == [(number, 0) for number in range(4)]

        assert story.provider.terminate([with_identity(four, 1, 0)]) == []
        assert identities(story.wait(3)) == [(0, 0), (2, 0), (3, 0)]
        assert story.workers() == story.provider.workers()

        assert story.provider.launch(group["groupName"], 1) == []
        assert identities(story.wait(4)) == [(number, 0) for number in range(4)]


def test_the_first_autoscaler_takes_hosts_for_slices_and_identities_stay_exact(
    control_plane: ControlPlane, indexing: bool
) -> None:
    """It posts the number of pods as replicas: only `maxReplicas` is a bound."""
    with scaled(control_plane, "taken", slices("one", 1, most=3), "v1", on=indexing) as story:
        assert story.provider.launch(GROUP, 1) == []
        three = story.wait(3 * HOSTS)
        assert identities(three) == whole(0, 1, 2)

        assert story.provider.terminate([with_identity(three, 1, 2)]) == []
        slice_names = names_of(of_replica(three, 1))
        until(lambda: not slice_names & story.workers(), "the slice of the host goes")
        # It comes again, as there are more pods than slices
        after = story.wait(3 * HOSTS)
        assert identities(after) == whole(0, 1, 2)
        assert not replica_names(of_replica(after, 1)) & replica_names(three)
