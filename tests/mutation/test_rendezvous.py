"""A multi-host GPU replica has a rendezvous; processes keep their own variables."""

import pytest

from tests.builders import (
    a_cluster,
    a_pod,
    decide,
    env_names,
    env_of,
)
from webhook.api import names

CLUSTER = a_cluster("c").group("g", hosts=2, replicas=2).group("single")
RENDEZVOUS = {names.NNODES, names.NODE_RANK, names.MASTER_ADDR, names.MASTER_PORT}
NEVER = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES"}


def profiled(profiles: str) -> dict[str, str]:
    """Return the variables of host 1 of replica 0, eight GPUs, under these profiles."""
    cluster = a_cluster("c").group("g", hosts=2).annotated(names.ANNOTATION_PROFILES, profiles)
    return env_of(decide(a_pod().worker("g").of("c").gpu(8).seat(0, 1, "g-xh3hf"), cluster).pod)


def test_a_host_knows_its_rank_and_its_master() -> None:
    env = env_of(decide(a_pod().worker("g").of("c").gpu(8).seat(1, 1, "g-xh3hf"), CLUSTER).pod)
    assert env == {
        names.NNODES: "2",
        names.NODE_RANK: "1",
        names.MASTER_ADDR: "g-1-0.c-headless.team.svc",
        names.MASTER_PORT: "29500",
    }


@pytest.mark.parametrize(
    "key", ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "amd.com/gpu", "example.com/gpu"]
)
def test_any_gpu_counts(key: str) -> None:
    assert env_of(decide(a_pod().worker("g").of("c").gpu(1, key), CLUSTER).pod).keys() >= RENDEZVOUS


@pytest.mark.parametrize(
    "key", ["cpu", "memory", "nvidia.com/gpu.count", "vpc.amazonaws.com/efa", "nvidia.com/gpumem"]
)
def test_anything_else_does_not(key: str) -> None:
    assert (
        not env_of(decide(a_pod().worker("g").of("c").resource(key, "1"), CLUSTER).pod).keys()
        & RENDEZVOUS
    )


def test_a_request_without_a_limit_counts_and_zero_does_not() -> None:
    requested = a_pod().worker("g").of("c").resource("nvidia.com/gpu", "1", "requests")
    assert env_of(decide(requested, CLUSTER).pod).keys() >= RENDEZVOUS
    assert not env_of(decide(a_pod().worker("g").of("c").gpu(0), CLUSTER).pod).keys() & RENDEZVOUS


def test_a_single_host_needs_no_rendezvous() -> None:
    assert (
        not env_of(decide(a_pod().worker("single").of("c").gpu(8), CLUSTER).pod).keys() & RENDEZVOUS
    )


def test_sidecars_and_init_containers_get_it_too() -> None:
    pod = decide(a_pod().worker("g").of("c").gpu(8).container("sidecar").init("setup"), CLUSTER).pod
    assert env_of(pod, "sidecar").keys() >= RENDEZVOUS
    assert env_of(pod, "setup").keys() >= RENDEZVOUS


@pytest.mark.parametrize("profiles", ["", "torchrun", "vllm", "mnnvl", "torchrun,vllm,mnnvl"])
def test_the_variables_of_a_process_are_never_set(profiles: str) -> None:
    assert not profiled(profiles).keys() & NEVER


def test_torchrun_reads_its_own() -> None:
    env = profiled("torchrun")
    assert (env[names.PET_NNODES], env[names.PET_NODE_RANK], env[names.PET_NPROC_PER_NODE]) == (
        "2",
        "1",
        "8",
    )
    assert (env[names.PET_MASTER_ADDR], env[names.PET_MASTER_PORT]) == (
        env[names.MASTER_ADDR],
        "29500",
    )


def test_torchrun_meets_where_the_user_said() -> None:
    cluster = a_cluster("c").group("g", hosts=2).annotated(names.ANNOTATION_PROFILES, "torchrun")
    env = env_of(
        decide(
            a_pod()
            .worker("g")
            .of("c")
            .gpu(8)
            .env(names.MASTER_PORT, "1234")
            .env(names.MASTER_ADDR, "mine"),
            cluster,
        ).pod
    )
    assert (env[names.PET_MASTER_ADDR], env[names.PET_MASTER_PORT]) == ("mine", "1234")


@pytest.mark.parametrize("placeholder", [False, True])
@pytest.mark.parametrize("reference", [False, True])
def test_torchrun_refers_to_a_master_whose_value_the_kubelet_knows(
    placeholder: bool,  # noqa: FBT001
    reference: bool,  # noqa: FBT001
) -> None:
    cluster = a_cluster("c").group("g", hosts=2).annotated(names.ANNOTATION_PROFILES, "torchrun")
    pod = a_pod().worker("g").of("c").gpu(8)
    if placeholder:
        pod.env(names.PET_MASTER_ADDR, "")
    if reference:
        pod.env("MINE", "mine").env(names.MASTER_ADDR, "$(MINE)")
    else:
        pod.env_from(names.MASTER_ADDR, "metadata.annotations['master']")
    decided = decide(pod.env("B", "b"), cluster).pod
    assert env_of(decided)[names.PET_MASTER_ADDR] == "$(MASTER_ADDR)"
    order = env_names(decided)
    assert order[-3:] == [names.MASTER_ADDR, names.PET_MASTER_ADDR, "B"]


def test_torchrun_has_as_many_nodes_as_the_user_said_with_a_warning() -> None:
    cluster = a_cluster("c").group("g", hosts=2).annotated(names.ANNOTATION_PROFILES, "torchrun")
    pod = a_pod().worker("g").of("c").gpu(8).env(names.NNODES, "16")
    decided = decide(pod, cluster)
    env = env_of(decided.pod)
    assert (env[names.NNODES], env[names.PET_NNODES]) == ("16", "16")
    (warning,) = decided.answer.warnings
    assert warning.startswith(names.NNODES)


def test_a_sidecar_without_gpus_has_no_processes_per_node() -> None:
    cluster = a_cluster("c").group("g", hosts=2).annotated(names.ANNOTATION_PROFILES, "torchrun")
    pod = decide(a_pod().worker("g").of("c").gpu(8).container("sidecar"), cluster).pod
    assert names.PET_NPROC_PER_NODE not in env_of(pod, "sidecar")
    assert names.PET_NNODES in env_of(pod, "sidecar")


def test_vllm_gets_an_address_of_its_own() -> None:
    assert profiled("vllm")[names.VLLM_HOST_IP] == "<status.podIP>"


def test_mnnvl_switches_nccl_on() -> None:
    env = profiled("mnnvl")
    assert [
        env[name]
        for name in (names.NCCL_MNNVL_ENABLE, names.NCCL_CUMEM_ENABLE, names.NCCL_NVLS_ENABLE)
    ] == ["1", "1", "1"]


def test_profiles_are_opt_in() -> None:
    assert profiled("").keys() == RENDEZVOUS


@pytest.mark.parametrize("profiles", ["none", "none,torchrun", "vllm,none"])
def test_the_profile_none_turns_everything_off(profiles: str) -> None:
    assert profiled(profiles) == {}


def test_an_unknown_profile_is_a_warning_that_lists_the_known_ones() -> None:
    cluster = (
        a_cluster("c").group("g", hosts=2).annotated(names.ANNOTATION_PROFILES, "torchrun,Torch")
    )
    decided = decide(a_pod().worker("g").of("c").gpu(8), cluster)
    assert [
        warning
        for warning in decided.answer.warnings
        if "'Torch'" in warning and "mnnvl" in warning
    ]
    assert names.PET_NNODES in env_of(decided.pod)


def test_a_master_of_the_user_stays_and_a_rank_of_the_user_is_a_warning() -> None:
    pod = (
        a_pod().worker("g").of("c").gpu(8).env(names.MASTER_ADDR, "mine").env(names.NODE_RANK, "7")
    )
    decided = decide(pod, CLUSTER)
    assert (env_of(decided.pod)[names.MASTER_ADDR], env_of(decided.pod)[names.NODE_RANK]) == (
        "mine",
        "7",
    )
    assert len(decided.answer.warnings) == 1
    assert names.NODE_RANK in decided.answer.warnings[0]
    assert env_names(decided.pod).count(names.NODE_RANK) == 1


@pytest.mark.parametrize("amount", ["0.5", "500m", "-1", "eight"])
def test_a_part_of_a_gpu_is_refused(amount: str) -> None:
    assert decide(a_pod().worker("g").of("c").gpu(amount), CLUSTER).fields == [
        "spec.containers[0].resources[nvidia.com/gpu]"
    ]


def test_efa_is_the_provider_of_libfabric() -> None:
    env = profiled("efa")
    assert (env[names.FI_PROVIDER], env[names.FI_EFA_USE_DEVICE_RDMA]) == ("efa", "1")
    assert env[names.FI_EFA_FORK_SAFE] == "1"


@pytest.mark.parametrize(
    ("key", "processes"), [("aws.amazon.com/neuron", None), ("aws.amazon.com/neuroncore", "32")]
)
def test_neuron_meets_at_host_0_with_a_port_of_its_own(key: str, processes: str | None) -> None:
    cluster = a_cluster("c").group("g", hosts=2)
    cluster.annotated(names.ANNOTATION_PROFILES, "neuron,torchrun")
    env = env_of(decide(a_pod().worker("g").of("c").resource(key, "32"), cluster).pod)
    assert env[names.NEURON_RT_ROOT_COMM_ID] == "g-0-0.c-headless.team.svc:41000"
    assert env.get(names.PET_NPROC_PER_NODE) == processes


@pytest.mark.parametrize(("claim", "counts"), [("gpu", True), ("my-gpus", True), ("roce", False)])
def test_a_container_that_names_a_claim_of_gpus_asks_for_gpus(
    claim: str,
    counts: bool,  # noqa: FBT001
) -> None:
    cluster = a_cluster("c").group("g", hosts=2)
    cluster.annotated(names.ANNOTATION_PROFILES, "torchrun")
    pod = a_pod().worker("g").of("c").build()
    pod["spec"]["resourceClaims"] = [{"name": claim, "resourceClaimTemplateName": "eight"}]
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": claim}]}
    env = env_of(decide(pod, cluster).pod)
    assert (env.get(names.NNODES) == "2") is counts
    assert names.PET_NPROC_PER_NODE not in env
