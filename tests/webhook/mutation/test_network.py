"""Hosts that others must reach have a name and a service; other hosts have none."""

import pytest

from tests.builders import PodBuilder, a_cluster, a_pod, decide, env_of
from webhook.api import names

CLUSTER = a_cluster("c").group("g", hosts=2).group("TPU-Group", hosts=2).group("single")
SLICES = a_cluster("c").group("single", replicas=2)


def a_host(**spec: object) -> PodBuilder:
    return a_pod().worker("g").of("c").spec(**spec)


def a_single() -> PodBuilder:
    return a_pod().worker("single").of("c").tpu(4).env(names.MEGASCALE_NUM_SLICES, "2")


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_host().identity(3, 1, "g-xh3hf"), ("g-3-1", "c-headless")),
        (a_host(hostname="", subdomain=""), ("g-0-0", "c-headless")),
        (a_host(hostname=None, subdomain=None), ("g-0-0", "c-headless")),
        (a_host(hostname="g-0-0"), ("g-0-0", "c-headless")),
        (a_pod().worker("TPU-Group").of("c"), ("tpu-group-0-0", "c-headless")),
        (a_pod().worker("single").of("c").tpu(4), (None, None)),
        (a_single(), ("single-0-0", "c-headless")),
    ],
)
def test_hosts_that_others_must_reach_are_named_and_no_others(
    pod: PodBuilder, expected: tuple[str | None, str | None]
) -> None:
    decided = decide(pod, CLUSTER)
    spec = decided.pod["spec"]
    assert (spec.get("hostname"), spec.get("subdomain")) == expected
    assert not decided.answer.warnings


@pytest.mark.parametrize(("cluster", "warned"), [("c", False), ("c" * 40, True)])
def test_a_full_name_that_the_kernel_cannot_have_is_a_warning(cluster: str, warned: bool) -> None:
    pod = a_pod().worker("g").of(cluster).spec(setHostnameAsFQDN=True)
    decided = decide(pod, a_cluster(cluster).group("g", hosts=2))
    assert any("setHostnameAsFQDN" in text for text in decided.answer.warnings) == warned
    assert all(len(text) <= 120 for text in decided.answer.warnings)


def test_the_subdomain_of_the_user_stays_and_is_where_peers_are_sought() -> None:
    pod = a_host(subdomain="mine").tpu(4).env(names.MEGASCALE_NUM_SLICES, "2")
    decided = decide(pod, CLUSTER)
    env = env_of(decided.pod)
    assert decided.pod["spec"]["subdomain"] == "mine"
    assert env[names.TPU_WORKER_HOSTNAMES] == "g-0-0.mine,g-0-1.mine"
    assert env[names.MEGASCALE_COORDINATOR_ADDRESS] == "g-0-0.mine"
    gpu = decide(a_host(subdomain="mine").gpu(8), CLUSTER)
    assert env_of(gpu.pod)[names.MASTER_ADDR] == "g-0-0.mine.team.svc"


def test_a_host_name_set_by_hand_stays_with_a_warning_that_says_which_is_expected() -> None:
    decided = decide(a_host(hostname="mine"), CLUSTER)
    assert decided.pod["spec"]["hostname"] == "mine"
    (warning,) = decided.answer.warnings
    assert "spec.hostname" in warning
    assert "g-0-0" in warning


def test_a_service_that_nobody_creates_is_a_warning() -> None:
    (warning,) = [each for each in decide(a_single(), SLICES).answer.warnings if "service" in each]
    assert "c-headless" in warning
