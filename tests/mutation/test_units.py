"""A worker group of GPUs that is a unit: one job over all of its replicas."""

from typing import Any

import pytest

from tests.builders import (
    ClusterBuilder,
    PodBuilder,
    a_cluster,
    a_pod,
    decide,
    env_of,
)
from webhook.api import names

DOMAIN = "nvidia.com/gpu.clique"


def a_unit(unit: str = "worker-group", *, hosts: int = 1, replicas: int = 4) -> ClusterBuilder:
    """Return a RayCluster whose group g is a unit, beside another group."""
    cluster = a_cluster("c").group("g", hosts=hosts, replicas=replicas).group("other", replicas=2)
    return cluster.annotated(names.ANNOTATION_UNIT, unit)


def single(replica: int) -> PodBuilder:
    return a_pod().worker("g").of("c").gpu(4).label(names.LABEL_REPLICA_INDEX, str(replica))


def terms(pod: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pod["spec"]["affinity"][kind][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    return found


@pytest.mark.parametrize("unit", ["worker-group", "g=worker-group", "worker-group, other=replica"])
def test_the_replicas_of_a_group_are_the_ranks_of_one_job(unit: str) -> None:
    decided = decide(single(2), a_unit(unit))
    assert env_of(decided.pod) == {
        names.NNODES: "4",
        names.NODE_RANK: "2",
        names.MASTER_ADDR: "g-0-0.c-headless.team.svc",
        names.MASTER_PORT: "29500",
    }
    spec = decided.pod["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("g-2-0", "c-headless")


@pytest.mark.parametrize("unit", ["replica", "other=worker-group", "worker-group, g=replica"])
def test_a_single_host_of_another_unit_gets_nothing(unit: str) -> None:
    decided = decide(single(2), a_unit(unit))
    assert not env_of(decided.pod)
    assert "hostname" not in decided.pod["spec"]


def test_an_assigned_index_is_the_rank() -> None:
    decided = decide(a_pod().worker("g").of("c").gpu(4), a_unit())
    assert decided.pod["metadata"]["labels"][names.LABEL_REPLICA_INDEX] == "0"
    assert env_of(decided.pod)[names.NODE_RANK] == "0"


def test_hosts_of_several_replicas_are_counted_on() -> None:
    pod = a_pod().worker("g").of("c").gpu(4).identity(1, 1, "g-xh3hf")
    env = env_of(decide(pod, a_unit(hosts=2)).pod)
    assert (env[names.NNODES], env[names.NODE_RANK]) == ("8", "3")
    assert env[names.MASTER_ADDR].startswith("g-0-0.")


def test_a_rank_beyond_the_unit_is_warned_of() -> None:
    (warning,) = [
        each for each in decide(single(5), a_unit()).answer.warnings if each.startswith("rank")
    ]
    assert warning.startswith("rank 5 is not below the 4 hosts")


def test_profiles_are_those_of_the_unit() -> None:
    cluster = a_unit().annotated(names.ANNOTATION_PROFILES, "torchrun")
    env = env_of(decide(single(3), cluster).pod)
    assert (env[names.PET_NNODES], env[names.PET_NODE_RANK]) == ("4", "3")


def test_tpu_slices_stay_units_of_their_own() -> None:
    container = {"name": "ray-worker", "resources": {"limits": {names.RESOURCE_TPU: "4"}}}
    cluster = (
        a_cluster("c")
        .group("g", replicas=4, template={"spec": {"containers": [container]}})
        .annotated(names.ANNOTATION_UNIT, "worker-group")
    )
    pod = a_pod().worker("g").of("c").tpu(4).label(names.LABEL_REPLICA_INDEX, "2")
    decided = decide(pod, cluster)
    assert names.NNODES not in env_of(decided.pod)
    assert "hostname" not in decided.pod["spec"]


def test_a_unit_has_one_topology_domain_for_itself() -> None:
    pod = decide(single(1), a_unit().annotated(names.ANNOTATION_TOPOLOGY_KEY, DOMAIN)).pod
    assert pod["metadata"]["labels"][names.LABEL_UNIT] == "worker-group"
    (together,) = terms(pod, "podAffinity")
    assert together["labelSelector"]["matchLabels"] == {
        names.LABEL_CLUSTER: "c",
        names.LABEL_GROUP: "g",
    }
    apart = [
        tuple((each["key"], each["operator"], each.get("values")) for each in expressions)
        for term in terms(pod, "podAntiAffinity")
        for expressions in [term["labelSelector"]["matchExpressions"]]
    ]
    assert sorted(apart) == sorted(
        ((label, "NotIn", [value]), (marker, "Exists", None))
        for label, value in ((names.LABEL_CLUSTER, "c"), (names.LABEL_GROUP, "g"))
        for marker in (names.LABEL_REPLICA_NAME, names.LABEL_UNIT)
    )


@pytest.mark.parametrize("granularity", ["replica", "worker-group"])
def test_a_unit_is_scheduled_with_the_pod_group_of_its_group(granularity: str) -> None:
    cluster = a_unit().annotated(names.ANNOTATION_SCHEDULING_GROUP, granularity)
    pod = decide(single(1), cluster).pod
    assert pod["spec"]["schedulingGroup"] == {"podGroupName": "c-worker-g"}


def test_single_hosts_have_stable_names_on_request() -> None:
    cluster = a_cluster("c").group("g").annotated(names.ANNOTATION_HOST_NAMES, "true")
    spec = decide(single(0), cluster).pod["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("g-0-0", "c-headless")
    assert not env_of({"spec": spec})
