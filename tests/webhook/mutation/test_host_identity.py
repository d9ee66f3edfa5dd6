"""An identity is written as by KubeRay itself, and hosts that others must reach have names."""

import pytest

from tests.builders import Object, PodBuilder, a_cluster, a_pod, decide, env_of
from webhook.api import names

INDEX, NAME, HOST = names.IDENTITY_LABELS
LEGACY = names.LABEL_LEGACY_REPLICA_INDEX


def a_worker(group: str = "g") -> PodBuilder:
    return a_pod().worker(group).of("c")


def added(pod: PodBuilder, hosts: int) -> dict[str, str]:
    before = pod.build()
    after = decide(before, a_cluster("c").group("g", hosts=hosts)).pod
    return dict(after["metadata"]["labels"].items() - before["metadata"]["labels"].items())


def test_a_multi_host_pod_gets_all_three() -> None:
    labels = added(a_worker().tpu(4), 2)
    assert labels.pop(NAME).startswith("g-")
    assert labels == {INDEX: "0", HOST: "0", LEGACY: "g-0"}


@pytest.mark.parametrize(("pod", "hosts", "labels"), [
    (a_worker(), 1, {INDEX: "0"}), (a_worker().tpu(4), 1, {INDEX: "0", LEGACY: "g-0"}),
    (a_worker().tpu(4).label(LEGACY, "mine-3"), 1, {INDEX: "0"}),
    (a_worker().tpu(4).label(INDEX, "5"), 1, {}),
    (a_worker().tpu(4).identity(5, 1, "g-xh3hf"), 2, {}),
])  # fmt: skip
def test_only_missing_labels_are_added(pod: PodBuilder, hosts: int, labels: Object) -> None:
    assert added(pod, hosts) == labels


@pytest.mark.parametrize(("annotation", "value", "hosts", "noted"), [
    ("repair", "true", 2, "assigned"), ("restart", "replica", 2, "assigned"),
    ("repair", "true", 1, None), ("repair", "false", 2, None),
])  # fmt: skip
def test_an_assigned_identity_that_may_be_repaired_is_noted(
    annotation: str, value: str, hosts: int, noted: str | None
) -> None:
    cluster = a_cluster("c").group("g", hosts=hosts)
    cluster.annotated(f"admission.ray.io/{annotation}", value)
    annotations = decide(a_worker(), cluster).pod["metadata"]["annotations"]
    assert annotations.get("admission.ray.io/identity") == noted


@pytest.mark.parametrize(("group", "fits"), [("g" * 61, True), ("g" * 62, False)])
def test_a_group_name_too_long_for_that_label_is_a_warning(group: str, fits: bool) -> None:
    decided = decide(a_worker(group).tpu(4), a_cluster("c").group(group))
    labels = decided.pod["metadata"]["labels"]
    assert any(LEGACY in each for each in decided.answer.warnings) != fits
    assert ((LEGACY in labels), labels[INDEX]) == (fits, "0")


CLUSTER = a_cluster("c").group("g", hosts=2).group("TPU-Group", hosts=2).group("single")
SINGLE = a_worker("single").tpu(4).env(names.MEGASCALE_NUM_SLICES, "2")


@pytest.mark.parametrize(("pod", "expected"), [
    (a_worker().identity(3, 1, "g-xh3hf"), ("g-3-1", "c-headless")),
    (a_worker().spec(hostname="", subdomain=""), ("g-0-0", "c-headless")),
    (a_worker().spec(hostname=None, subdomain=None), ("g-0-0", "c-headless")),
    (a_worker().spec(hostname="g-0-0"), ("g-0-0", "c-headless")),
    (a_worker("TPU-Group"), ("tpu-group-0-0", "c-headless")),
    (a_worker("single").tpu(4), (None, None)), (SINGLE, ("single-0-0", "c-headless")),
])  # fmt: skip
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
    pod = a_worker().spec(subdomain="mine").tpu(4).env(names.MEGASCALE_NUM_SLICES, "2")
    decided = decide(pod, CLUSTER)
    env = env_of(decided.pod)
    assert decided.pod["spec"]["subdomain"] == "mine"
    assert env[names.TPU_WORKER_HOSTNAMES] == "g-0-0.mine,g-0-1.mine"
    assert env[names.MEGASCALE_COORDINATOR_ADDRESS] == "g-0-0.mine"
    gpu = decide(a_worker().spec(subdomain="mine").gpu(8), CLUSTER)
    assert env_of(gpu.pod)[names.MASTER_ADDR] == "g-0-0.mine.team.svc"


def test_a_host_name_set_by_hand_stays_with_a_warning_that_says_which_is_expected() -> None:
    decided = decide(a_worker().spec(hostname="mine"), CLUSTER)
    assert decided.pod["spec"]["hostname"] == "mine"
    (warning,) = decided.answer.warnings
    assert "spec.hostname" in warning
    assert "g-0-0" in warning


def test_a_service_that_nobody_creates_is_a_warning() -> None:
    decided = decide(SINGLE, a_cluster("c").group("single", replicas=2))
    (warning,) = [each for each in decided.answer.warnings if "service" in each]
    assert "c-headless" in warning
