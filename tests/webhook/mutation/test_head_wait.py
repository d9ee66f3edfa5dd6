"""The init container that waits for the head gets more resources, and the pod requests no more."""

import copy

import pytest

from tests.builders import Object, PodBuilder, a_cluster, a_pod, container_of, decide
from tests.webhook.mutation.pod_resources import effective, is_guaranteed
from webhook.api import names
from webhook.mutation.ray_pod import DEFAULT_POLICY, Policy

FEW = {"cpu": "200m", "memory": "256Mi"}
WAIT = names.WAIT_FOR_HEAD


def a_worker(
    requests: Object, limits: Object | None = None, wait: Object | None = None
) -> PodBuilder:
    """Return a worker whose Ray container has these resources, with KubeRay's init container."""
    pod = a_pod().of("c").worker("g").identity(0, 0, "g-xh3hf")
    for kind, amounts in (("requests", requests), ("limits", limits or {})):
        for resource, amount in amounts.items():
            pod.resource(resource, amount, kind)
    return pod.init(WAIT, resources=wait or {"requests": dict(FEW), "limits": dict(FEW)})


def resources_of_wait(pod: PodBuilder, policy: Policy = DEFAULT_POLICY, hosts: int = 2) -> Object:
    admitted = decide(pod, a_cluster("c").group("g", hosts=hosts), policy).pod
    resources: Object = container_of(admitted, WAIT)["resources"]
    return resources


@pytest.mark.parametrize(("requests", "expected"), [
    ({"cpu": "8", "memory": "64Gi"}, {"cpu": "900m", "memory": "1Gi"}),
    ({"cpu": 8, "memory": "64Gi"}, {"cpu": "900m", "memory": "1Gi"}),
    ({"cpu": "500m", "memory": "512Mi"}, {"cpu": "500m", "memory": "512Mi"}),
    ({"cpu": "100m", "memory": "64Mi"}, FEW),
    ({"cpu": "1", "memory": "0.25Gi"}, {"cpu": "900m", "memory": "256Mi"}),
    ({"cpu": "850m"}, {"cpu": "850m", "memory": "256Mi"}),
    ({}, FEW),
])  # fmt: skip
def test_requests_and_limits_follow_rays_container(requests: Object, expected: Object) -> None:
    for hosts in (1, 2):
        resources = resources_of_wait(a_worker(requests), hosts=hosts)
        assert resources == {"requests": expected, "limits": expected}


def test_a_limit_alone_is_the_request_too() -> None:
    resources = resources_of_wait(a_worker({}, {"cpu": "4", "memory": "2Gi"}))
    assert resources["requests"] == {"cpu": "900m", "memory": "1Gi"}


def test_an_operator_that_gives_more_or_nothing_is_left_alone() -> None:
    more = {"cpu": "2", "memory": "2Gi"}
    ray = {"cpu": "8", "memory": "64Gi"}
    assert resources_of_wait(a_worker(ray, wait={"requests": more, "limits": more})) == {
        "requests": more,
        "limits": more,
    }
    assert resources_of_wait(a_worker(ray, wait={"limits": FEW})) == {"limits": FEW}
    assert resources_of_wait(a_worker(ray, wait={"requests": dict(FEW)})) == {
        "requests": {"cpu": "900m", "memory": "1Gi"}
    }


def test_a_limit_above_the_request_is_left_alone_for_the_class_of_the_pod() -> None:
    wait = {"requests": dict(FEW), "limits": {"cpu": "500m", "memory": "512Mi"}}
    equal = {"cpu": "500m", "memory": "512Mi"}
    assert resources_of_wait(a_worker(equal, equal, wait)) == wait


def test_the_setting_and_other_init_containers() -> None:
    pod = a_worker({"cpu": "8"})
    off = Policy(raise_wait_gcs_ready=False)
    assert resources_of_wait(pod, off) == {"requests": FEW, "limits": FEW}
    other = pod.init("setup", resources={"requests": dict(FEW)})
    cluster = a_cluster("c").group("g", hosts=2)
    admitted = decide(other, cluster).pod
    assert container_of(admitted, "setup")["resources"] == {"requests": FEW}
    assert decide(admitted, cluster).pod == admitted


@pytest.mark.parametrize("sidecars", [0, 1])
@pytest.mark.parametrize(("requests", "limits"), [
    ({"cpu": "8", "memory": "64Gi"}, {"cpu": "8", "memory": "64Gi"}),
    ({"cpu": "500m", "memory": "300Mi"}, {"cpu": "8", "memory": "64Gi"}),
    ({"cpu": "1"}, {"cpu": "1"}), ({"cpu": "2", "memory": "1Gi"}, {}),
])  # fmt: skip
def test_the_pod_requests_no_more(requests: Object, limits: Object, sidecars: int) -> None:
    pod = a_worker(requests, limits).build()
    inits = pod["spec"]["initContainers"]
    resources = {"requests": dict(FEW), "limits": dict(FEW)}
    sidecar: Object = {"name": "log", "restartPolicy": "Always", "resources": resources}
    inits[:0] = [copy.deepcopy(sidecar) for _ in range(sidecars)]
    admitted = decide(pod, a_cluster("c").group("g", hosts=2)).pod
    assert admitted["spec"]["initContainers"] != inits
    for resource in ("cpu", "memory"):
        assert effective(admitted, "requests", resource) == effective(pod, "requests", resource)
        if resource in limits:
            assert effective(admitted, "limits", resource) == effective(pod, "limits", resource)
    assert is_guaranteed(admitted) == is_guaranteed(pod)
