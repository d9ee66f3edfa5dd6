"""A slice of a multi-slice job knows its number and the coordinator, where the user said how many
slices there are.
"""

import pytest

from tests.builders import PodBuilder, a_cluster, a_pod, decide, env_of
from webhook.kube import names

CLUSTER = a_cluster("c").group("g", hosts=4, replicas=2)
MEGASCALE = {names.MEGASCALE_SLICE_ID, names.MEGASCALE_COORDINATOR_ADDRESS, names.MEGASCALE_PORT}


def a_host(replica: int) -> PodBuilder:
    """Return a pod of a slice whose Ray container takes part in a job over two slices."""
    pod = (
        a_pod()
        .worker("g")
        .of("c")
        .tpu(4)
        .topology("4x4", "tpu-v6e-slice")
        .seat(replica, 1, "g-xh3hf")
    )
    return pod.env(names.MEGASCALE_NUM_SLICES, "2")


def test_without_a_number_of_slices_there_is_no_multi_slice_job() -> None:
    env = env_of(decide(a_pod().worker("g").of("c").tpu(4), CLUSTER).pod)
    assert not env.keys() & MEGASCALE


def test_the_slice_is_the_replica_and_host_0_of_slice_0_coordinates() -> None:
    env = env_of(decide(a_host(1), CLUSTER).pod)
    assert env[names.MEGASCALE_SLICE_ID] == "1"
    assert env[names.MEGASCALE_COORDINATOR_ADDRESS] == "g-0-0.c-headless"
    assert env[names.MEGASCALE_PORT] == "8081"


def test_only_containers_that_take_part_get_them() -> None:
    pod = decide(a_host(1).container("sidecar"), CLUSTER).pod
    assert not env_of(pod, "sidecar").keys() & MEGASCALE


def test_an_empty_number_of_slices_is_none() -> None:
    env = env_of(
        decide(a_pod().worker("g").of("c").tpu(4).env(names.MEGASCALE_NUM_SLICES, ""), CLUSTER).pod
    )
    assert not env.keys() & MEGASCALE


def test_a_number_of_slices_from_elsewhere_counts() -> None:
    pod = (
        a_pod()
        .worker("g")
        .of("c")
        .tpu(4)
        .env_from(names.MEGASCALE_NUM_SLICES, "metadata.annotations['slices']")
    )
    assert env_of(decide(pod, CLUSTER).pod).keys() >= MEGASCALE


def test_a_pod_without_chips_is_no_slice() -> None:
    assert (
        not env_of(
            decide(a_pod().worker("g").of("c").env(names.MEGASCALE_NUM_SLICES, "2"), CLUSTER).pod
        ).keys()
        & MEGASCALE
    )


def test_each_process_of_a_v7x_host_has_a_port_of_its_own() -> None:
    pod = (
        a_pod()
        .worker("g")
        .of("c")
        .topology("2x2x4", "tpu7x")
        .tpu(2)
        .env(names.MEGASCALE_NUM_SLICES, "2")
    )
    decided = decide(
        pod.container("numa-1").tpu(2).env(names.MEGASCALE_NUM_SLICES, "2"), CLUSTER
    ).pod
    first, second = env_of(decided), env_of(decided, "numa-1")
    assert (first[names.MEGASCALE_PORT], second[names.MEGASCALE_PORT]) == ("8081", "8082")
    assert (
        first[names.MEGASCALE_COORDINATOR_ADDRESS]
        == second[names.MEGASCALE_COORDINATOR_ADDRESS]
        == "g-0-0.c-headless:8081"
    )


def test_a_slice_beyond_the_number_of_slices_is_a_warning() -> None:
    assert [
        warning
        for warning in decide(a_host(2), CLUSTER).answer.warnings
        if names.MEGASCALE_SLICE_ID in warning
    ]
    assert not decide(a_host(1), CLUSTER).answer.warnings


@pytest.mark.parametrize("digits", [10, 4301, 100_000])
def test_a_number_of_slices_that_is_none_is_a_warning(digits: int) -> None:
    pod = a_pod().worker("g").of("c").tpu(4).env(names.MEGASCALE_NUM_SLICES, "9" * digits)
    warnings = decide(pod, CLUSTER).answer.warnings
    assert [len(warning) < 200 for warning in warnings if "999999999…" in warning] == [True]


def test_a_slice_set_by_hand_stays_with_a_warning_where_there_are_several_replicas() -> None:
    decided = decide(a_host(1).env(names.MEGASCALE_SLICE_ID, "0"), CLUSTER)
    assert env_of(decided.pod)[names.MEGASCALE_SLICE_ID] == "0"
    assert [warning for warning in decided.answer.warnings if names.MEGASCALE_SLICE_ID in warning]
    alone = decide(
        a_host(1).env(names.MEGASCALE_SLICE_ID, "0"), a_cluster("c").group("g", hosts=4, replicas=1)
    )
    assert not alone.answer.warnings


def test_a_coordinator_of_the_user_stays() -> None:
    decided = decide(a_host(1).env(names.MEGASCALE_COORDINATOR_ADDRESS, "elsewhere:1"), CLUSTER)
    assert env_of(decided.pod)[names.MEGASCALE_COORDINATOR_ADDRESS] == "elsewhere:1"
    assert not decided.answer.warnings
