"""Pods of sub-slices and of slices that Kueue forms receive values of their own slice."""

import pytest

from tests.builders import Object, PodBuilder, a_cluster, a_pod, decide, env_of
from webhook.api import names

CLUSTER = a_cluster("c").group("g", hosts=2, replicas=2).group("one").group("four", hosts=4)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PARTITION = "cloud.google.com/gke-tpu-partition-{}-id"


def a_part(part: str = "2x4", whole: str = "4x4", group: str = "g") -> PodBuilder:
    pod = a_pod().worker(group).of("c").tpu(4).topology(whole, "tpu-v6e-slice")
    return pod.annotated(names.ANNOTATION_SLICE_TOPOLOGY, part)


def a_whole() -> PodBuilder:
    return a_pod().worker("g").of("c").tpu(4).topology("2x4", "tpu-v6e-slice")


def a_formed(group: str = "four") -> PodBuilder:
    pod = a_pod().worker(group).of("c").tpu(4).selecting(names.NODE_TPU_ACCELERATOR, "tpu7x")
    return pod.annotated(names.KUEUE_SLICE_REQUIRED_TOPOLOGY, PARTITION.format("4x4x4")).gated(
        names.KUEUE_GATE_TOPOLOGY
    )


def keys_of(pod: Object) -> set[str]:
    affinity = pod["spec"].get("affinity", {})
    return {term["topologyKey"] for kind in affinity.values() for term in kind.get(REQUIRED, [])}


@pytest.mark.parametrize(("pod", "topology", "kind", "hosts"), [
    (a_part(), "2x4", "v6e-8", 2),
    (a_part("2x2", "2x4", "one"), "2x2", "v6e-4", 0),
    (a_formed(), "2x2x4", "tpu7x-32", 4),  # it follows from the chips
], ids=["sub-slice", "sub-slice of one host", "formed by Kueue"])  # fmt: skip
def test_slices_have_their_topology(pod: PodBuilder, topology: str, kind: str, hosts: int) -> None:
    env = env_of(decide(pod, CLUSTER).pod)
    assert (env[names.TPU_TOPOLOGY], env[names.TPU_ACCELERATOR_TYPE]) == (topology, kind)
    assert env.get(names.TPU_WORKER_HOSTNAMES, "").count(".c-headless") == hosts


def test_hosts_of_a_sub_slice_that_do_not_add_up_are_refused_at_the_annotation() -> None:
    field = f"metadata.annotations[{names.ANNOTATION_SLICE_TOPOLOGY}]"
    assert decide(a_part("4x4", "8x8"), CLUSTER).fields == [field]
    assert decide(a_part("2x", "8x8"), CLUSTER).fields == [field]


def test_a_user_who_wants_no_checks_of_topologies_is_not_refused() -> None:
    decided = decide(
        a_part("4x4", "8x8").annotated(names.ANNOTATION_SKIP_TPU_CHECK, "true"), CLUSTER
    )
    assert decided.answer.allowed
    assert env_of(decided.pod)[names.TPU_TOPOLOGY] == "4x4"


def test_two_sub_slices_share_a_node_pool() -> None:
    decided = decide(a_part(), CLUSTER)
    assert "affinity" not in decided.pod["spec"]
    assert not decided.answer.warnings


@pytest.mark.parametrize(
    ("key", "kinds"), [("cloud.google.com/gce-topology-host", 2), (names.NODE_POOL, 1)]
)
def test_hosts_of_a_sub_slice_keep_together_by_the_key_of_the_user(key: str, kinds: int) -> None:
    pod = decide(a_part(), a_cluster("c").group("g", hosts=2).opting(topology_key=key)).pod
    assert keys_of(pod) == {key}
    assert len(pod["spec"]["affinity"]) == kinds


def test_what_nobody_knows_is_left_out_and_what_follows_from_the_chips_is_not() -> None:
    decided = decide(a_formed("g"), a_cluster("c").group("g", hosts=48))
    env = env_of(decided.pod)
    assert names.TPU_TOPOLOGY not in env
    assert env[names.TPU_ACCELERATOR_TYPE] == "tpu7x-384"
    assert not decided.answer.warnings


@pytest.mark.parametrize("key", names.KUEUE_TOPOLOGIES)
def test_kueue_chooses_the_nodes_so_that_nothing_of_ours_stands_in_its_way(key: str) -> None:
    pod, cluster = a_whole().annotated(key, "true"), a_cluster("c").group("g", hosts=2)
    assert keys_of(decide(pod, cluster).pod) == {names.NODE_POOL}
    assert keys_of(decide(pod, cluster.label(names.LABEL_KUEUE_QUEUE, "tpus")).pod) == set()


@pytest.mark.parametrize(
    ("gate", "keys"),
    [("kueue.x-k8s.io/elastic-job", {names.NODE_POOL}), (names.KUEUE_GATE_TOPOLOGY, set())],
)
def test_with_a_gate_of_kueue_it_chooses_the_nodes_in_any_case(gate: str, keys: set[str]) -> None:
    assert keys_of(decide(a_whole().gated(gate), CLUSTER).pod) == keys


def test_the_user_may_want_affinity_beside_kueue() -> None:
    asking = a_cluster("c").group("four", hosts=4).opting(topology_key="example.com/rack")
    assert keys_of(decide(a_formed(), asking).pod) == {"example.com/rack"}


def torch(pod: PodBuilder, hosts: int = 2) -> dict[str, str]:
    cluster = a_cluster("c").group("g", hosts=hosts).group("one").opting(profiles="torch-tpu")
    return env_of(decide(pod, cluster).pod)


def test_torch_tpu_builds_a_sub_slice_of_its_own() -> None:
    env = torch(a_part().identity(1, 0, "g-xh3hf"))
    assert env[names.TORCH_TPU_TOPOLOGY] == "2,4,1"
    addresses = [f"g-1-{host}.c-headless:{port}" for host in range(2) for port in range(8471, 8475)]
    assert env[names.TORCH_TPU_SLICEBUILDER_ADDRESSES] == ",".join(addresses)
    # Ray writes these for each worker process
    of_ray = {"TPU_PROCESS_BOUNDS", "TPU_CHIPS_PER_PROCESS_BOUNDS", "TPU_VISIBLE_CHIPS"}
    assert not of_ray & env.keys()


def test_torch_tpu_counts_a_chip_of_v7x_as_two_devices() -> None:
    env = torch(a_pod().worker("one").of("c").tpu(4).topology("2x2x1", "tpu7x"))
    assert env[names.TORCH_TPU_TOPOLOGY] == "2,2,1,2"
    assert env[names.TORCH_TPU_SLICEBUILDER_ADDRESSES] == ",".join(
        f"localhost:{port}" for port in range(8471, 8479)
    )


def test_torch_tpu_is_opt_in_and_none_takes_it_away() -> None:
    assert names.TORCH_TPU_TOPOLOGY not in env_of(decide(a_part(), CLUSTER).pod)
    off = a_cluster("c").group("g", hosts=2).opting(profiles="torch-tpu,none")
    assert names.TORCH_TPU_TOPOLOGY not in env_of(decide(a_part(), off).pod)
