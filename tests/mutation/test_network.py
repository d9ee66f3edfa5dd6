"""Hosts that others must reach have a name and a service; other hosts have none."""

import pytest

from tests.builders import (
    a_cluster,
    a_pod,
    decide,
    env_of,
)
from webhook.api import names

CLUSTER = a_cluster("c").group("g", hosts=2).group("single")
SLICES = a_cluster("c").group("single", replicas=2)


def test_a_multi_host_pod_gets_host_name_and_subdomain() -> None:
    spec = decide(a_pod().worker("g").of("c").seat(3, 1, "g-xh3hf"), CLUSTER).pod["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("g-3-1", "c-headless")


@pytest.mark.parametrize("empty", ["", None])
def test_empty_ones_count_as_unset(empty: str | None) -> None:
    spec = decide(a_pod().worker("g").of("c").spec(hostname=empty, subdomain=empty), CLUSTER).pod[
        "spec"
    ]
    assert (spec["hostname"], spec["subdomain"]) == ("g-0-0", "c-headless")


def test_the_group_name_is_lower_case_in_the_host_name() -> None:
    spec = decide(
        a_pod().worker("TPU-Group").of("c"), a_cluster("c").group("TPU-Group", hosts=2)
    ).pod["spec"]
    assert spec["hostname"] == "tpu-group-0-0"


@pytest.mark.parametrize(("cluster", "warned"), [("c", False), ("c" * 40, True)])
def test_a_full_name_that_the_kernel_cannot_have_is_a_warning(
    cluster: str,
    *,
    warned: bool,
) -> None:
    pod = a_pod().worker("g").of(cluster).spec(setHostnameAsFQDN=True)
    decided = decide(pod, a_cluster(cluster).group("g", hosts=2))
    assert any("setHostnameAsFQDN" in text for text in decided.answer.warnings) == warned
    assert all(len(text) <= 120 for text in decided.answer.warnings)


def test_a_single_host_pod_gets_neither() -> None:
    assert (
        not {"hostname", "subdomain"}
        & decide(a_pod().worker("single").of("c").tpu(4), CLUSTER).pod["spec"].keys()
    )


def test_the_subdomain_of_the_user_stays_and_is_where_peers_are_sought() -> None:
    decided = decide(
        a_pod().worker("g").of("c").tpu(4).env("MEGASCALE_NUM_SLICES", "2").spec(subdomain="mine"),
        CLUSTER,
    )
    env = env_of(decided.pod)
    assert decided.pod["spec"]["subdomain"] == "mine"
    assert env[names.TPU_WORKER_HOSTNAMES] == "g-0-0.mine,g-0-1.mine"
    assert env[names.MEGASCALE_COORDINATOR_ADDRESS] == "g-0-0.mine"
    gpu = decide(a_pod().worker("g").of("c").gpu(8).spec(subdomain="mine"), CLUSTER)
    assert env_of(gpu.pod)[names.MASTER_ADDR] == "g-0-0.mine.team.svc"


def test_a_host_name_set_by_hand_stays_with_a_warning_that_says_which_is_expected() -> None:
    decided = decide(a_pod().worker("g").of("c").spec(hostname="mine"), CLUSTER)
    assert decided.pod["spec"]["hostname"] == "mine"
    assert [
        warning
        for warning in decided.answer.warnings
        if "spec.hostname" in warning and "g-0-0" in warning
    ]


def test_the_right_host_name_set_by_hand_is_no_cause_for_a_warning() -> None:
    assert not decide(a_pod().worker("g").of("c").spec(hostname="g-0-0"), CLUSTER).answer.warnings


def test_single_hosts_of_a_multi_slice_job_reach_each_other() -> None:
    decided = decide(
        a_pod().worker("single").of("c").tpu(4).env("MEGASCALE_NUM_SLICES", "2"), CLUSTER
    )
    assert (decided.pod["spec"]["hostname"], decided.pod["spec"]["subdomain"]) == (
        "single-0-0",
        "c-headless",
    )
    assert not decided.answer.warnings


def test_a_service_that_nobody_creates_is_a_warning() -> None:
    decided = decide(
        a_pod().worker("single").of("c").tpu(4).env("MEGASCALE_NUM_SLICES", "2"), SLICES
    )
    assert [warning for warning in decided.answer.warnings if "c-headless" in warning]


def test_the_service_of_a_long_cluster_name_is_not_truncated() -> None:
    name = "c" * 53
    assert (
        decide(a_pod().worker("g").of(name), a_cluster(name).group("g", hosts=2)).pod["spec"][
            "subdomain"
        ]
        == f"{name}-headless"
    )
