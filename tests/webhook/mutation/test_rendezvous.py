"""Multi-host GPU replicas have a rendezvous, and shards an index; values of the user stay."""

import msgspec
import pytest

from tests.builders import (
    PodBuilder,
    Webhook,
    a_cluster,
    a_pod,
    cluster_config,
    decide,
    env_names,
    env_of,
)
from webhook.api import names

CLUSTER = a_cluster("c").group("g", hosts=2, replicas=2).group("single")
RENDEZVOUS = {
    names.NNODES: "2", names.NODE_RANK: "1", names.MASTER_ADDR: "g-1-0.c-headless.team.svc",
    names.MASTER_PORT: "29500"}  # fmt: skip
"""The variables of host 1 of replica 1."""
TORCHRUN = a_cluster("c").group("g", hosts=2).opting(profiles="torchrun")


def a_worker(group: str = "g") -> PodBuilder:
    return a_pod().worker(group).of("c")


def a_host(replica: int = 0) -> PodBuilder:
    return a_worker().gpu(8).identity(replica, 1, "g-xh3hf")


def given(pod: PodBuilder) -> dict[str, str]:
    return env_of(decide(pod, CLUSTER).pod)


def profiled(profiles: str, pod: PodBuilder | None = None) -> dict[str, str]:
    cluster = a_cluster("c").group("g", hosts=2).opting(profiles=profiles)
    return env_of(decide(pod or a_host(), cluster).pod)


def test_a_host_knows_its_rank_and_its_master() -> None:
    assert given(a_host(1)) == RENDEZVOUS


@pytest.mark.parametrize(("pod", "meets"), [
    (a_worker().gpu(1, "amd.com/gpu"), True), (a_worker().gpu(0), False),
    (a_worker().resource("nvidia.com/gpu", "1", "requests"), True),
    (a_worker().resource("vpc.amazonaws.com/efa", "1"), False), (a_worker("single").gpu(8), False),
])  # fmt: skip
def test_any_gpu_of_several_hosts_counts_and_nothing_else(pod: PodBuilder, meets: bool) -> None:
    assert given(pod).keys() & RENDEZVOUS.keys() == (RENDEZVOUS.keys() if meets else set())


@pytest.mark.parametrize(("profile", "expected"), [
    ("torchrun",
     {names.PET_NNODES: "2", names.PET_NODE_RANK: "1", names.PET_NPROC_PER_NODE: "8",
     names.PET_MASTER_ADDR: "g-0-0.c-headless.team.svc", names.PET_MASTER_PORT: "29500"}),
    ("vllm", {names.VLLM_HOST_IP: "<status.podIP>"}),
    ("mnnvl",
     {names.NCCL_MNNVL_ENABLE: "1", names.NCCL_CUMEM_ENABLE: "1", names.NCCL_NVLS_ENABLE: "1"}),
    ("efa",
     {names.FI_PROVIDER: "efa", names.FI_EFA_USE_DEVICE_RDMA: "1", names.FI_EFA_FORK_SAFE: "1"}),
    ("", {}),
])  # fmt: skip
def test_a_profile_adds_its_variables(profile: str, expected: dict[str, str]) -> None:
    env = profiled(profile)
    assert env.keys() >= RENDEZVOUS.keys()
    assert {name: value for name, value in env.items() if name not in RENDEZVOUS} == expected


def test_torchrun_meets_where_the_user_said() -> None:
    pod = a_host().env(names.MASTER_PORT, "1234").env(names.MASTER_ADDR, "mine")
    env = env_of(decide(pod, TORCHRUN).pod)
    assert (env[names.PET_MASTER_ADDR], env[names.PET_MASTER_PORT]) == ("mine", "1234")


@pytest.mark.parametrize("placeholder", [False, True])
@pytest.mark.parametrize("reference", [False, True])
def test_torchrun_refers_to_a_master_with_a_value(placeholder: bool, reference: bool) -> None:
    pod = a_host()
    if placeholder:
        pod.env(names.PET_MASTER_ADDR, "")
    if reference:
        pod.env("MINE", "mine").env(names.MASTER_ADDR, "$(MINE)")
    else:
        pod.env_from(names.MASTER_ADDR, "metadata.annotations['master']")
    decided = decide(pod.env("B", "b"), TORCHRUN).pod
    assert env_of(decided)[names.PET_MASTER_ADDR] == "$(MASTER_ADDR)"
    assert env_names(decided)[-3:] == [names.MASTER_ADDR, names.PET_MASTER_ADDR, "B"]


def test_torchrun_has_as_many_nodes_as_the_user_said_with_a_warning() -> None:
    decided = decide(a_host().env(names.NNODES, "16"), TORCHRUN)
    env = env_of(decided.pod)
    assert (env[names.NNODES], env[names.PET_NNODES]) == ("16", "16")
    (warning,) = decided.answer.warnings
    assert warning.startswith(names.NNODES)


def test_a_sidecar_without_gpus_has_no_processes_per_node() -> None:
    pod = decide(a_host().container("sidecar"), TORCHRUN).pod
    assert names.PET_NPROC_PER_NODE not in env_of(pod, "sidecar")
    assert names.PET_NNODES in env_of(pod, "sidecar")


@pytest.mark.parametrize("profiles", ["none", "none,torchrun", "vllm,none"])
def test_the_profile_none_turns_everything_off(profiles: str) -> None:
    assert profiled(profiles) == {}


def test_an_unknown_profile_is_a_warning_that_lists_the_known_ones() -> None:
    cluster = a_cluster("c").group("g", hosts=2)
    decided = decide(a_host(), cluster.opting(profiles="torchrun,Torch"))
    assert any("'Torch'" in text and "mnnvl" in text for text in decided.answer.warnings)
    assert names.PET_NNODES in env_of(decided.pod)


def test_a_master_of_the_user_stays_and_a_rank_of_the_user_is_a_warning() -> None:
    decided = decide(a_host().env(names.MASTER_ADDR, "mine").env(names.NODE_RANK, "7"), CLUSTER)
    env = env_of(decided.pod)
    assert (env[names.MASTER_ADDR], env[names.NODE_RANK]) == ("mine", "7")
    (warning,) = decided.answer.warnings
    assert names.NODE_RANK in warning
    assert env_names(decided.pod).count(names.NODE_RANK) == 1


@pytest.mark.parametrize("amount", ["0.5", "500m", "-1", "eight"])
def test_a_part_of_a_gpu_is_refused(amount: str) -> None:
    field = "spec.containers[0].resources[nvidia.com/gpu]"
    assert decide(a_worker().gpu(amount), CLUSTER).fields == [field]


@pytest.mark.parametrize(
    ("key", "processes"), [("aws.amazon.com/neuron", None), ("aws.amazon.com/neuroncore", "32")]
)
def test_neuron_meets_at_host_0_with_a_port_of_its_own(key: str, processes: str | None) -> None:
    env = profiled("neuron,torchrun", a_worker().resource(key, "32"))
    assert env[names.NEURON_RT_ROOT_COMM_ID] == "g-0-0.c-headless.team.svc:41000"
    assert env.get(names.PET_NPROC_PER_NODE) == processes


@pytest.mark.parametrize(("claim", "counts"), [("gpu", True), ("my-gpus", True), ("roce", False)])
def test_a_container_that_names_a_claim_of_gpus_asks_for_gpus(claim: str, counts: bool) -> None:
    pod = a_worker().build()
    pod["spec"]["resourceClaims"] = [{"name": claim, "resourceClaimTemplateName": "eight"}]
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": claim}]}
    env = env_of(decide(pod, TORCHRUN).pod)
    assert (env.get(names.NNODES) == "2") is counts
    assert names.PET_NPROC_PER_NODE not in env


SHARD = a_cluster("c").group("g").opting(shard_group="search", shard_index="3")


@pytest.mark.parametrize("node_type", ["head", "worker"])
def test_every_container_of_head_and_workers_knows_its_shard(node_type: str) -> None:
    pod = a_worker().label(names.LABEL_NODE_TYPE, node_type)
    decided = decide(pod.container("sidecar").init("wait"), SHARD)
    for container in ("ray-worker", "sidecar", "wait"):
        found = env_of(decided.pod, container)
        assert (found[names.RAY_SHARD_INDEX], found[names.RAY_SHARD_GROUP]) == ("3", "search")
    assert decided.answer.warnings == ()


def test_a_value_of_the_user_stays_with_a_warning() -> None:
    decided = decide(a_worker().env(names.RAY_SHARD_INDEX, "9"), SHARD)
    assert env_of(decided.pod)[names.RAY_SHARD_INDEX] == "9"
    assert env_of(decided.pod)[names.RAY_SHARD_GROUP] == "search"
    assert len(decided.answer.warnings) == 1


@pytest.mark.parametrize("index", ["", "x", "01"])
def test_a_cluster_without_an_index_warns_and_sets_nothing(index: str) -> None:
    webhook = Webhook()
    webhook.clusters.put(msgspec.structs.replace(cluster_config(SHARD), shard_index=index))
    decided = webhook.admit(a_worker().build())
    assert names.RAY_SHARD_INDEX not in env_of(decided.pod)
    (warning,) = decided.answer.warnings
    assert names.ANNOTATION_SHARD_INDEX in warning


def test_a_cluster_in_a_file_has_the_index_that_its_creation_would_have_given_it() -> None:
    first = SHARD.build()
    second = a_cluster("d").group("g").opting(shard_group="search").build()
    webhook = Webhook(second, first)
    for cluster, index in (("d", "0"), ("c", "3")):
        pod = webhook.admit(a_pod().worker("g").of(cluster).build()).pod
        assert env_of(pod)[names.RAY_SHARD_INDEX] == index


def test_an_index_alone_is_no_shard() -> None:
    decided = decide(a_worker(), a_cluster("c").group("g").opting(shard_index="0"))
    assert names.RAY_SHARD_INDEX not in env_of(decided.pod)
    assert decided.answer.warnings == ()


def test_all_containers_know_how_many_shards_there_are() -> None:
    counted = a_cluster("c").group("g").opting(shard_group="search", shard_count="8")
    decided = decide(a_worker().container("sidecar"), counted.opting(shard_index="3"))
    for container in ("ray-worker", "sidecar"):
        assert env_of(decided.pod, container)[names.RAY_SHARD_COUNT] == "8"
    assert names.RAY_SHARD_COUNT not in env_of(decide(a_worker(), SHARD).pod)
