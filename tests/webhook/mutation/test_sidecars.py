"""Variables of Ray are added to Ray's container, at any position among sidecars."""

import pytest

from tests.builders import (
    ClusterBuilder,
    Object,
    PodBuilder,
    a_cluster,
    a_pod,
    container_of,
    decide,
    env_names,
)
from webhook.api import names
from webhook.mutation.ray_pod import Policy

ZONES = Policy(zones=True)
IPPR = '{"groups": {"g": {"max-cpu": "8", "max-memory": "32Gi", "resize-timeout": 60}}}'
OF_RAY = {names.RAY_DRAIN_TIMEOUT, names.RAY_NODE_ZONE, names.RAY_OVERRIDE_LABELS}


def asking() -> ClusterBuilder:
    cluster = a_cluster("c").group("g", hosts=2).annotated(names.ANNOTATION_IPPR, IPPR)
    cluster.opting(replica_label="true")
    return cluster.opting(drain_seconds="120")


def started() -> PodBuilder:
    """Return a pod whose first container is not Ray's, which KubeRay's variable shows."""
    return a_pod().of("c").worker("g").spec(containers=[{"name": "main"}]).behind("proxy")


def named() -> PodBuilder:
    """Return a pod whose second container is called as in KubeRay's samples."""
    ray = {"name": "ray-worker", "image": "ray", "lifecycle": {"stopSignal": "SIGUSR1"}}
    proxy = {"name": "proxy", "resizePolicy": [], "lifecycle": {"postStart": {"sleep": {}}}}
    return a_pod().of("c").worker("g").spec(containers=[proxy, ray])


@pytest.mark.parametrize("pod", [started(), named()], ids=["by the command", "by name"])
def test_a_sidecar_in_front_receives_nothing_of_ray(pod: PodBuilder) -> None:
    before = pod.build()["spec"]["containers"]
    after = decide(pod, asking(), ZONES).pod
    proxy, ray = after["spec"]["containers"]
    assert not OF_RAY & set(env_names(after, "proxy"))
    assert set(env_names(after, ray["name"])) >= OF_RAY
    for key in ("lifecycle", "resizePolicy"):
        assert proxy.get(key) == before[0].get(key)
    assert "preStop" in ray["lifecycle"]
    assert resources(ray) == ["cpu", "memory"]


def test_without_a_sign_the_first_container_is_that_of_ray() -> None:
    pod = a_pod().of("c").worker("g").spec(containers=[{"name": "a"}, {"name": "b"}]).init("setup")
    after = decide(pod, asking(), ZONES).pod
    for name in ("a", "b", "setup"):
        container, is_ray = container_of(after, name), name == "a"
        assert OF_RAY & set(env_names(after, name)) == (OF_RAY if is_ray else set())
        assert ("lifecycle" in container) is is_ray
        assert resources(container) == (["cpu", "memory"] if is_ray else [])


def resources(container: Object) -> list[str]:
    return [rule["resourceName"] for rule in container.get("resizePolicy") or ()]
