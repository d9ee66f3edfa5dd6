"""An assigned identity is written as by KubeRay itself; existing labels are not changed."""

import pytest

from tests.builders import Object, PodBuilder, a_cluster, a_pod, decide
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


@pytest.mark.parametrize(("group", "fits"), [("g" * 61, True), ("g" * 62, False)])
def test_a_group_name_too_long_for_that_label_is_a_warning(group: str, fits: bool) -> None:
    decided = decide(a_worker(group).tpu(4), a_cluster("c").group(group))
    labels = decided.pod["metadata"]["labels"]
    assert any(LEGACY in each for each in decided.answer.warnings) != fits
    assert ((LEGACY in labels), labels[INDEX]) == (fits, "0")
