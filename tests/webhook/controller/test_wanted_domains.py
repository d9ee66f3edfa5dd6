"""The desired ComputeDomains of a RayCluster."""

import pytest

from tests.builders import ClusterBuilder, a_cluster, cluster_config, uid_of
from tests.webhook.controller.test_podgroups import with_pods
from webhook.controller.podgroups.domains import build_desired_domains
from webhook.groups.identity import HostIdentity
from webhook.groups.pod_groups import list_replica_names
from webhook.groups.scheduling_groups import digest

UID = digest(uid_of("c"))
GPU = {
    "spec": {"containers": [{"name": "ray-worker", "resources": {"limits": {"nvidia.com/gpu": 4}}}]}
}


def asking(scope: str) -> ClusterBuilder:
    """Return a RayCluster with GPUs in a group of two hosts and in one of single hosts."""
    return (
        a_cluster("c")
        .group("g", hosts=2, replicas=2, template=GPU)
        .group("single", replicas=16, template=GPU)
        .group("cpu", hosts=2)
        .opting(compute_domain=scope)
    )


def domains(cluster: ClusterBuilder, *identities: tuple[str, HostIdentity]) -> list[str]:
    """Return the names of the ComputeDomains that should exist, with pods in these identities."""
    known = cluster_config(cluster)
    found = build_desired_domains(known, list_replica_names(known, with_pods(*identities)))
    assert found.workload is None
    return [each.name for each in found.pod_groups]


@pytest.mark.parametrize(("scope", "expected"), [
    ("cluster", [f"c-all-{UID}"]),
    ("worker-group", [f"c-worker-g-{UID}", f"c-worker-single-{UID}"]),
    ("replica", []), ("", []), ("pods", []),
])  # fmt: skip
def test_domains_exist_as_long_as_they_are_asked_for(scope: str, expected: list[str]) -> None:
    assert domains(asking(scope)) == expected


def test_a_replica_of_several_hosts_has_a_domain_from_its_first_pod_on() -> None:
    identities = [
        ("g", HostIdentity(0, 0, "g-bcdfg")), ("g", HostIdentity(1, 1, "g-hjklm")),
        ("single", HostIdentity(0, 0, "")), ("cpu", HostIdentity(0, 0, "cpu-bcdfg"))]  # fmt: skip
    assert domains(asking("replica"), *identities) == ["c-worker-g-bcdfg", "c-worker-g-hjklm"]


def test_a_cluster_whose_head_alone_has_gpus_has_a_domain() -> None:
    cluster = a_cluster("c").head(**GPU["spec"]).group("cpu")
    assert domains(cluster.opting(compute_domain="cluster")) == [f"c-all-{UID}"]


def test_a_cluster_without_gpus_has_none() -> None:
    cluster = a_cluster("c").group("cpu")
    assert domains(cluster.opting(compute_domain="cluster")) == []
