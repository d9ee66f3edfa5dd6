"""An assigned identity is written as by KubeRay itself; existing labels are not changed."""

import pytest

from tests.builders import a_cluster, a_pod, decide
from webhook.api import names

INDEX, NAME, HOST = names.IDENTITY_LABELS
TPU = a_cluster("c").group("g", hosts=2)


def added(pod: dict[str, object], before: dict[str, object]) -> dict[str, str]:
    """Return the labels that one pod has more than another."""
    return dict(labels_of(pod).items() - labels_of(before).items())


def labels_of(pod: dict[str, object]) -> dict[str, str]:
    meta = pod["metadata"]
    assert isinstance(meta, dict)
    found: dict[str, str] = meta["labels"]
    return found


def test_a_multi_host_pod_gets_all_three() -> None:
    pod = a_pod().worker("g").of("c").build()
    labels = added(decide(pod, TPU).pod, pod)
    assert labels.keys() == set(names.IDENTITY_LABELS)
    assert (labels[INDEX], labels[HOST]) == ("0", "0")
    assert labels[NAME].startswith("g-")


def test_a_single_host_pod_gets_the_index_alone() -> None:
    pod = a_pod().worker("g").of("c").build()
    assert added(decide(pod, a_cluster("c").group("g")).pod, pod) == {INDEX: "0"}


def test_a_tpu_pod_gets_the_label_of_the_first_autoscaler_too() -> None:
    pod = a_pod().worker("g").of("c").tpu(4).build()
    assert labels_of(decide(pod, TPU).pod)[names.LABEL_LEGACY_REPLICA_INDEX] == "g-0"
    assert (
        labels_of(decide(pod, a_cluster("c").group("g")).pod)[names.LABEL_LEGACY_REPLICA_INDEX]
        == "g-0"
    )


def test_a_label_of_the_first_autoscaler_that_is_there_stays() -> None:
    pod = (
        a_pod().worker("g").of("c").tpu(4).label(names.LABEL_LEGACY_REPLICA_INDEX, "mine-3").build()
    )
    assert labels_of(decide(pod, TPU).pod)[names.LABEL_LEGACY_REPLICA_INDEX] == "mine-3"


@pytest.mark.parametrize(("group", "fits"), [("g" * 61, True), ("g" * 62, False)])
def test_a_group_name_too_long_for_that_label_is_a_warning(group: str, fits: bool) -> None:
    decided = decide(a_pod().worker(group).of("c").tpu(4), a_cluster("c").group(group))
    warned = any(names.LABEL_LEGACY_REPLICA_INDEX in each for each in decided.answer.warnings)
    assert (names.LABEL_LEGACY_REPLICA_INDEX in labels_of(decided.pod)) == fits
    assert warned != fits
    assert labels_of(decided.pod)[INDEX] == "0"


def test_a_carried_identity_gets_no_label_at_all() -> None:
    pod = a_pod().worker("g").of("c").tpu(4).identity(5, 1, "g-xh3hf").build()
    assert labels_of(decide(pod, TPU).pod) == labels_of(pod)


def test_a_carried_single_host_index_gets_no_label_at_all() -> None:
    pod = a_pod().worker("g").of("c").tpu(4).label(INDEX, "5").build()
    assert labels_of(decide(pod, a_cluster("c").group("g")).pod) == labels_of(pod)
