"""RayClusters with ComputeDomains: which domains exist while pods are created, drained and deleted,
and the claims of each pod.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.e2e.api import PODS, RAY_CLUSTERS, Api, Json, Objects, Resource
from tests.e2e.control_plane import UNFINALIZED, ControlPlane
from tests.e2e.installation import WITH_CONTROLLER
from tests.e2e.kuberay import Operator
from tests.e2e.rays import example, scale, workers
from tests.e2e.waiting import until
from tests.e2e.webhook_process import Webhook
from webhook.api import names

pytestmark = pytest.mark.e2e

CRD: Final = Path(__file__).parent / "nvidia" / "computedomains.yaml"
COMPUTE_DOMAINS: Final = Resource("resource.nvidia.com/v1beta1", "computedomains")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane that serves the ComputeDomains of NVIDIA's DRA driver."""
    with ControlPlane() as running:
        running.define([yaml.safe_load(CRD.read_text())])
        with Webhook(running, [WITH_CONTROLLER, "computeDomains.enabled=true"]), Operator(running):
            yield running


def domains(api: Api, namespace: str) -> dict[str, str]:
    """Return the uids of ComputeDomains, by the template that the driver makes of each."""
    return {
        each["spec"]["channel"]["resourceClaimTemplate"]["name"]: each["metadata"]["uid"]
        for each in api.list(COMPUTE_DOMAINS, namespace)
    }


def claimed(pod: Json) -> list[str]:
    """Return the templates of the claims that a pod has in each of its containers."""
    templates = {
        each["name"]: each["resourceClaimTemplateName"]
        for each in pod["spec"].get("resourceClaims", [])
    }
    first, *_ = pod["spec"]["containers"]
    return [templates[each["name"]] for each in first["resources"].get("claims", [])]


def a_rack(scope: str, hosts: int = 1, replicas: int = 2) -> Json:
    cluster = example("gpu-2x8")
    cluster["metadata"] = {"name": "rack", "annotations": {names.ANNOTATION_COMPUTE_DOMAIN: scope}}
    (pattern,) = cluster["spec"]["workerGroupSpecs"]
    counted = {"replicas": replicas, "minReplicas": 0, "maxReplicas": 8, "numOfHosts": hosts}
    cluster["spec"]["workerGroupSpecs"] = [
        {**pattern, **counted, "groupName": group} for group in ("a", "b")
    ]
    return cluster


def running(plane: ControlPlane, namespace: str, number: int) -> Objects:
    until(lambda: len(workers(plane.api, namespace)) == number, f"{number} workers exist")
    return workers(plane.api, namespace)


def test_groups_of_single_hosts_share_one_domain_a_group(plane: ControlPlane) -> None:
    api, namespace = plane.api, plane.namespace("by-group")
    api.create(RAY_CLUSTERS, a_rack("worker-group"), namespace)
    pods = running(plane, namespace, 4)
    by_group: dict[str, set[str]] = {}
    for pod in pods:
        (template,) = claimed(pod)
        by_group.setdefault(pod["metadata"]["labels"][names.LABEL_GROUP], set()).add(template)
        assert pod["metadata"]["labels"][names.LABEL_COMPUTE_DOMAIN] == "worker-group"
    found = {group: each.pop() for group, each in by_group.items() if len(each) == 1}
    assert found.keys() == {"a", "b"}
    until(lambda: domains(api, namespace).keys() == set(found.values()), "two domains exist")
    plane.delete_ray_cluster("rack", namespace)


def test_a_domain_outlives_the_last_pod_and_a_new_replica_has_a_new_one(
    plane: ControlPlane,
) -> None:
    api, namespace = plane.api, plane.namespace("by-replica")
    cluster = a_rack("replica", hosts=2, replicas=1)
    cluster["spec"]["workerGroupSpecs"] = cluster["spec"]["workerGroupSpecs"][:1]
    api.create(RAY_CLUSTERS, cluster, namespace)
    pods = running(plane, namespace, 2)
    (old,) = {template for pod in pods for template in claimed(pod)}
    until(lambda: domains(api, namespace).keys() == {old}, "the replica has a domain")
    uid = domains(api, namespace)[old]

    for pod in pods:  # a finalizer holds the pods, as draining does
        hold = {"metadata": {"finalizers": ["example.com/drain"]}}
        api.patch(PODS, pod["metadata"]["name"], hold, namespace)
    scale(api, "rack", namespace, 0)
    until(lambda: not workers(api, namespace), "the pods are being deleted")
    other = plane.namespace("later")  # whose domain is made after the controller looked here
    api.create(RAY_CLUSTERS, a_rack("worker-group"), other)
    until(lambda: len(domains(api, other)) == 2, "a later RayCluster has its domains")
    assert domains(api, namespace) == {old: uid}

    for pod in api.list(PODS, namespace, "ray.io/node-type=worker"):
        api.patch(PODS, pod["metadata"]["name"], UNFINALIZED, namespace)
    until(lambda: not domains(api, namespace), "the domain goes after the last pod")

    scale(api, "rack", namespace, 1)
    (new,) = {template for pod in running(plane, namespace, 2) for template in claimed(pod)}
    assert new != old
    until(lambda: domains(api, namespace).keys() == {new}, "the new replica has a domain")
    plane.delete_ray_cluster("rack", namespace)
    plane.delete_ray_cluster("rack", other)
