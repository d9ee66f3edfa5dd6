"""A replica that could never start is refused at its first host, with the field to correct."""

import json

import pytest

from tests.builders import ClusterBuilder, PodBuilder, Webhook, a_cluster, a_pod, decide, manifest
from webhook.api import names
from webhook.groups.naming import ADDED_MAX, address_size, compute_added_size
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.views import as_cluster
from webhook.validation.ruleset import check

GROUP = [f"metadata.labels[{names.LABEL_GROUP}]"]
TOPOLOGY = [f"spec.nodeSelector[{names.NODE_TPU_TOPOLOGY}]"]


@pytest.mark.parametrize(("groups", "hosts", "fields"), [
    (["g", "TPU-Group", "g" * 57, "0", "a-b"], 2, []),
    (["a.b", "a_b", "A.B", "g" * 58, "g" * 63, "g" * 64], 2, GROUP),
    (["a.b", "A_b", "g" * 63], 1, []),  # single hosts have no host name
    (["g" * 57], 100, []), (["g" * 57], 1001, GROUP),
])  # fmt: skip
def test_a_group_name_fits_in_host_names(groups: list[str], hosts: int, fields: list[str]) -> None:
    for group in groups:
        cluster = a_cluster("c").group(group, hosts=hosts)
        assert decide(a_pod().worker(group).of("c"), cluster).fields == fields, group


@pytest.mark.parametrize("hosts", [0, -1, 4097])
def test_a_number_of_hosts_that_makes_no_replica_is_refused(hosts: int) -> None:
    cluster = a_cluster("c").group("g", hosts=hosts)
    assert decide(a_pod().worker("g").of("c"), cluster).fields == GROUP


@pytest.mark.parametrize("group", ["a.b", "g" * 61])
def test_single_hosts_of_a_multi_slice_job_do_have_host_names(group: str) -> None:
    pod = a_pod().worker(group).of("c").tpu(4).env(names.MEGASCALE_NUM_SLICES, "2")
    assert decide(pod, a_cluster("c").group(group)).fields == GROUP


@pytest.mark.parametrize(("group", "hosts", "replica", "name", "fields"), [
    ("g" * 58, 2, 0, "short", []),  # a carried replica name leaves more room
    ("g" * 57, 100, 100, "g-xh3hf", GROUP),  # host 0 is refused for the host names of others
])  # fmt: skip
def test_a_carried_identity_decides_whether_a_name_fits(
    group: str, hosts: int, replica: int, name: str, fields: list[str]
) -> None:
    pod = a_pod().worker(group).of("c").identity(replica, 0, name)
    assert decide(pod, a_cluster("c").group(group, hosts=hosts)).fields == fields


@pytest.mark.parametrize("cluster", ["c" * 55, "a.b"])
def test_a_cluster_whose_service_cannot_resolve_is_refused(cluster: str) -> None:
    decided = decide(a_pod().worker("g").of(cluster), a_cluster(cluster).group("g", hosts=2))
    assert decided.fields == [f"metadata.labels[{names.LABEL_CLUSTER}]"]


@pytest.mark.parametrize(("topology", "chips", "hosts", "fields"), [
    ("2x2x2", 4, 2, []), ("16x16", 4, 64, []), ("2x2x2", 4, 4, TOPOLOGY),
    ("2x2x2", 8, 2, TOPOLOGY), ("2x4", 3, 2, TOPOLOGY), ("2x", 4, 2, TOPOLOGY),
    ("4x4", 4, 1, []),  # a single host is not measured by it
    ("2x", 0, 2, []),  # nor a pod without chips
])  # fmt: skip
def test_a_slice_adds_up_or_not(topology: str, chips: int, hosts: int, fields: list[str]) -> None:
    pod = a_pod().worker("g").of("c").tpu(chips).topology(topology)
    assert decide(pod, a_cluster("c").group("g", hosts=hosts)).fields == fields


def test_a_slice_of_a_job_over_several_is_not_measured_as_a_single_host() -> None:
    pod = a_pod().worker("g").of("c").tpu(4).topology("4x4").env(names.MEGASCALE_NUM_SLICES, "2")
    assert decide(pod, a_cluster("c").group("g").group("other", hosts=2)).answer.allowed


def test_every_reason_is_given_at_once() -> None:
    pod: PodBuilder = a_pod().worker("a.b").of("c").tpu(4).topology("2x")
    assert decide(pod, a_cluster("c").group("a.b", hosts=2)).fields == GROUP + TOPOLOGY


def addressed(containers: int) -> PodBuilder:
    """Return a pod of a v7x slice with so many containers, each with a TPU process."""
    pod = a_pod().worker("g").of("c").tpu(4).topology("16x32x32", "tpu7x")
    for number in range(containers - 1):
        pod.container(f"c{number}").tpu(0 if number else 4)
    return pod.selecting(names.NODE_TPU_TOPOLOGY, "")


def crowded(pod: PodBuilder) -> PodBuilder:
    for number in range(3000):
        pod.container(f"c{number}")
    return pod


SHARD = a_cluster("c").group("g", hosts=2).opting(shard_group="search")


@pytest.mark.parametrize(("pod", "cluster", "text"), [
    (addressed(60), a_cluster("c").group("g", hosts=4096), "12288 addresses in 60 containers"),
    (addressed(600), a_cluster("c").group("g", hosts=2), "6 addresses in 600 containers"),
    (a_pod().worker("g").of("c").tpu(9_000_000).topology("3000x3000"),
     a_cluster("c").group("g").opting(profiles="torch-tpu"), "9000000 addresses in 1 containers"),
    *((crowded(pod), SHARD, "3001 containers add 6002000 bytes")
      for pod in (a_pod().of("c").head(), a_pod().of("c").worker("g").gpu(8))),
], ids=["addresses", "two hosts", "chips", "containers of a head", "containers"])  # fmt: skip
def test_a_pod_to_which_too_much_would_be_added_is_refused_with_the_size(
    pod: PodBuilder, cluster: ClusterBuilder, text: str
) -> None:
    decided = decide(pod, cluster)
    assert decided.fields == ["spec.containers"]
    assert f"variables for {text}" in decided.answer.causes[0].message


def added(pod: PodBuilder, cluster: ClusterBuilder) -> int:
    """Return the bytes by which the variables of a pod grow."""
    decided = decide(pod, cluster)
    assert decided.answer.allowed
    before, after = (
        json.dumps([container.get("env", []) for container in document["spec"]["containers"]])
        for document in (pod.build(), decided.pod)
    )
    return len(after) - len(before)


def test_what_is_added_to_the_largest_pods_that_pass_is_what_was_reckoned() -> None:
    cluster = a_cluster("c").group("g", hosts=4096)
    reckoned = compute_added_size(address_size("g", "c", 4096), 4096, 2, 2)
    assert 0.8 * reckoned < added(addressed(2), cluster) < reckoned < ADDED_MAX


@pytest.mark.parametrize("chips", [0, 4])
def test_what_lists_nothing_is_less_than_what_is_reckoned_for_it(chips: int) -> None:
    group, name = "g" * 50, "c" * 50
    pod = a_pod().worker(group).of(name).env(names.MEGASCALE_NUM_SLICES, "2")
    pod = pod.tpu(chips).topology("2x2", "tpu7x") if chips else pod.gpu(8)
    cluster = a_cluster(name).group(group, hosts=1 if chips else 2)
    cluster.opting(profiles="torch-tpu,torchrun,vllm,mnnvl", shard_group="s" * 63)
    cluster.opting(shard_count="9999")
    address = address_size(group, name, 1)
    endpoints = 9 if chips else 0
    assert added(pod, cluster) < compute_added_size(address, 1, 1, endpoints)


@pytest.mark.parametrize("hosts", range(2100, 2180, 10))
def test_the_rule_refuses_what_is_refused_of_its_pods(hosts: int) -> None:
    group, key = "g" * 20, names.ANNOTATION_SKIP_TPU_CHECK
    built = a_pod().worker(group).tpu(4).topology("16x16x24", "tpu-v5p-slice").build()
    template = {"metadata": {"annotations": {key: "true"}}, "spec": built["spec"]}
    cluster = a_cluster("c").group(group, hosts=hosts, template=template)
    document = cluster.opting(profiles="torch-tpu").build()
    webhook, view = Webhook(document), as_cluster(manifest(document))
    found = [each.rule for each in check("RayCluster", document)]
    pod = next(each for each in expand(document, view) if "worker" in str(each["metadata"]))
    decided = webhook.admit(pod)
    assert decided.answer.allowed is ("variables-too-large" not in found)
