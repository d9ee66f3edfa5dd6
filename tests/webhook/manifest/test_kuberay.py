"""The pods of a RayCluster are those that KubeRay would create, in its order."""

import pytest

from tests.builders import (
    NAMESPACE,
    ClusterBuilder,
    Object,
    a_cluster,
    container_of,
    env_names,
    manifest,
    uid_of,
)
from webhook.api import names
from webhook.groups.identity import MAX_HOSTS
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.views import as_cluster


def expanded(cluster: ClusterBuilder | Object, *, indexed: bool = False) -> list[Object]:
    document = cluster.build() if isinstance(cluster, ClusterBuilder) else cluster
    return list(expand(document, as_cluster(manifest(document)), indexed=indexed))


def workers(cluster: ClusterBuilder | Object, *, indexed: bool = False) -> list[Object]:
    return [
        pod
        for pod in expanded(cluster, indexed=indexed)
        if labels(pod)[names.LABEL_NODE_TYPE] == names.NODE_TYPE_WORKER
    ]


def labels(pod: Object) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"]["labels"]
    return found


def test_the_head_comes_first_then_groups_replicas_and_hosts_in_order() -> None:
    cluster = a_cluster("c").group("b", hosts=2, replicas=2).group("a", replicas=2)
    pods = expanded(cluster, indexed=True)
    keys = names.LABEL_GROUP, names.LABEL_REPLICA_INDEX, names.LABEL_HOST_INDEX
    found = [tuple(map(labels(pod).get, keys)) for pod in pods]
    assert found == [
        ("headgroup", None, None),
        ("b", "0", "0"), ("b", "0", "1"), ("b", "1", "0"), ("b", "1", "1"),
        ("a", "0", None), ("a", "1", None),
    ]  # fmt: skip


def test_without_indexing_no_pod_carries_a_identity_label() -> None:
    pods = expanded(a_cluster("c").group("g", hosts=2))
    assert not [pod for pod in pods if set(names.IDENTITY_LABELS) & set(labels(pod))]


def test_hosts_of_a_replica_share_a_name_that_no_other_replica_has() -> None:
    found = [
        labels(pod)[names.LABEL_REPLICA_NAME]
        for pod in workers(a_cluster("c").group("g", hosts=2, replicas=2), indexed=True)
    ]
    assert found[0] == found[1] != found[2] == found[3]


@pytest.mark.parametrize(("group", "created"), [
    ({"replicas": 3, "minReplicas": 0, "maxReplicas": 10}, 3),
    ({"replicas": 1, "minReplicas": 2, "maxReplicas": 5}, 2),
    ({"replicas": 9, "minReplicas": 0, "maxReplicas": 4}, 4),
    ({"minReplicas": 2, "maxReplicas": 5}, 2), ({"replicas": 0, "maxReplicas": 5}, 0),
    ({"replicas": -1, "maxReplicas": 5}, 0), ({}, 0), ({"replicas": 3, "suspend": True}, 0),
    ({"replicas": 1, "numOfHosts": 2**40}, MAX_HOSTS),
])  # fmt: skip
def test_replicas_are_clamped(group: Object, created: int) -> None:
    document = a_cluster("c").group("g").build()
    (old,) = document["spec"]["workerGroupSpecs"]
    document["spec"]["workerGroupSpecs"] = [
        {"groupName": "g", "template": old["template"], **group}
    ]
    assert len(workers(document)) == created


def test_group_labels_win_over_template_labels_and_the_protected_ones_over_both() -> None:
    protected = {
        names.LABEL_CLUSTER: "c", names.LABEL_NODE_TYPE: "worker", names.LABEL_GROUP: "g",
        names.LABEL_REPLICA_INDEX: "0"}  # fmt: skip
    own = {"a": "group", **dict.fromkeys(protected, "other")}
    cluster = with_template({}, labels=own)
    cluster["spec"]["workerGroupSpecs"][0]["template"]["metadata"] = {
        "labels": {"a": "template", "b": "template", "ray.io/identifier": "me"}
    }
    found = labels(workers(cluster, indexed=True)[0])
    assert (found["a"], found["b"], found["ray.io/identifier"]) == ("group", "template", "me")
    assert protected.items() <= found.items()


def test_a_name_is_generated_in_lower_case_from_the_first_50_characters() -> None:
    pod = workers(a_cluster("cluster").group("Group"))[0]
    assert pod["metadata"]["generateName"] == "cluster-group-worker-"
    assert "name" not in pod["metadata"]
    pod = workers(a_cluster("c" * 45).group("group"))[0]
    assert pod["metadata"]["generateName"] == "c" * 45 + "-grou-worker-"
    head = expanded(a_cluster("c" * 53))[0]
    assert head["metadata"]["generateName"] == "c" * 50 + "-head-"


def test_the_owner_is_the_ray_cluster() -> None:
    meta = workers(a_cluster("c").group("g"))[0]["metadata"]
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("RayCluster", "c", uid_of("c"))
    assert owner["controller"] is True
    assert meta["namespace"] == NAMESPACE


def test_a_worker_group_called_as_the_head_group_still_has_workers() -> None:
    pod = workers(a_cluster("c").group("headgroup"))[0]
    assert pod["metadata"]["generateName"] == "c-headgroup-worker-"
    assert [init["name"] for init in pod["spec"]["initContainers"]] == ["wait-gcs-ready"]


def with_template(spec: Object, labels: dict[str, str] | None = None) -> Object:
    return a_cluster("c").group("g", template={"spec": spec}, labels=labels or {}).build()


def test_the_users_variables_come_first_and_kuberays_keep_its_order() -> None:
    env = [{"name": "MINE", "value": "1"}, {"name": "RAY_PORT", "value": "6380"}]
    spec: Object = {"containers": [{"name": "ray-worker", "env": env}]}
    assert env_names(workers(with_template(spec))[0]) == [
        "MINE", "RAY_PORT", "FQ_RAY_IP", "RAY_IP", "RAY_CLUSTER_NAME", "RAY_CLUSTER_NAMESPACE",
        "RAY_CLOUD_INSTANCE_ID",
        "RAY_NODE_TYPE_NAME", "RAY_ADDRESS", "RAY_USAGE_STATS_KUBERAY_IN_USE",
    ]  # fmt: skip


def test_the_init_container_of_a_worker_is_last_and_has_rays_variables() -> None:
    spec = {
        "initContainers": [{"name": "mine", "env": [{"name": "A", "value": "1"}]}],
        "containers": [
            {"name": "ray-worker", "env": [{"name": "B", "value": "2"}]},
            {"name": "sidecar"},
        ],
    }
    pod = workers(with_template(spec))[0]
    assert [init["name"] for init in pod["spec"]["initContainers"]] == ["mine", "wait-gcs-ready"]
    assert env_names(pod, "mine") == ["A", "FQ_RAY_IP", "RAY_IP"]
    assert env_names(pod, "wait-gcs-ready") == ["B", "FQ_RAY_IP", "RAY_IP"]
    assert "env" not in container_of(pod, "sidecar")
    head = expanded(a_cluster("c"))[0]
    assert "initContainers" not in head["spec"]
    assert "FQ_RAY_IP" not in env_names(head, "ray-head")


def test_expanding_leaves_the_ray_cluster_as_it_was() -> None:
    spec = {"initContainers": [{"name": "mine"}], "containers": [{"name": "ray-worker"}]}
    document = with_template(spec)
    before = repr(document)
    expanded(document)
    assert repr(document) == before


def test_a_template_may_have_no_containers_and_no_init_containers() -> None:
    assert workers(with_template({"containers": []}))[0]["spec"]["containers"] == []
    spec = {"containers": [{"name": "ray-worker", "image": "ray"}], "initContainers": None}
    (worker,) = workers(with_template(spec))
    assert [each["name"] for each in worker["spec"]["initContainers"]] == ["wait-gcs-ready"]
