"""Annotations that apply to no pod, and worker groups that are one job."""

from collections.abc import Callable

import pytest

from tests.validation.builders import ClusterBuilder, findings, found, rules
from tests.validation.builders import a_cluster as a_bare_cluster
from webhook.api import names
from webhook.groups.annotations import OPT_INS, OptIn
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.ruleset import check_update

WITHOUT_EFFECT = "annotation-without-effect"
GPU = "nvidia.com/gpu"
OVERRIDE = names.RAY_OVERRIDE_LABELS
DRAIN = names.RAY_DRAIN_TIMEOUT
QUEUE = names.LABEL_KUEUE_QUEUE

UNUSED: dict[str, tuple[str, Callable[[ClusterBuilder], ClusterBuilder]]] = {
    names.ANNOTATION_UNIT: ("worker-group", ClusterBuilder.group),
    names.ANNOTATION_HOST_NAMES: ("true", lambda it: it.group(hosts=2)),
    names.ANNOTATION_TOPOLOGY_KEY: ("rack", ClusterBuilder.group),
    names.ANNOTATION_PROFILES: ("efa", ClusterBuilder.group),
    names.ANNOTATION_SCHEDULING_GROUP: ("replica", ClusterBuilder.group),
    names.ANNOTATION_SHARD_INDEX: ("0", ClusterBuilder.group),
    names.ANNOTATION_SHARD_COUNT: ("2", ClusterBuilder.group),
    names.ANNOTATION_KUEUE_SLICES: ("true", lambda it: it.label(QUEUE, "tpus").group()),
    names.ANNOTATION_DRAIN_SECONDS: ("60", lambda it: it.group().env(DRAIN, "0")),
    names.ANNOTATION_COMPUTE_DOMAIN: ("worker-group", ClusterBuilder.group),
    names.ANNOTATION_NODE_LABELS: ("rack=rack", lambda it: it.group().env(OVERRIDE, "{}")),
    names.ANNOTATION_REPLICA_LABEL: ("true", lambda it: it.group().env(OVERRIDE, "{}")),
    names.ANNOTATION_REPAIR: ("true", ClusterBuilder.group),
    names.ANNOTATION_RESTART: ("replica", ClusterBuilder.group),
}
"""By opt-in, a value and a RayCluster to which it does not apply. A shard group always has an
effect: the RayCluster gets an index.
"""


@pytest.mark.parametrize("row", OPT_INS, ids=lambda row: row.annotation)
def test_every_opt_in_without_effect_is_a_warning(row: OptIn[object]) -> None:
    if row.annotation == names.ANNOTATION_SHARD_GROUP:
        assert row.annotation not in UNUSED
        return
    value, build = UNUSED[row.annotation]
    cluster = build(a_cluster(row.annotation, value))
    (finding,) = findings(cluster, WITHOUT_EFFECT)
    assert finding.path == f"metadata.annotations[{row.annotation}]"
    assert finding.level == "warn"
    assert finding.message.startswith("no effect: ")


@pytest.mark.parametrize("key", [names.ANNOTATION_REPAIR, names.ANNOTATION_RESTART])
def test_repair_that_is_off_is_a_warning(key: str) -> None:
    cluster = a_cluster(key, "true" if key == names.ANNOTATION_REPAIR else "replica")
    cluster.group(hosts=2)
    for repairs, count in ((False, 1), (True, 0), (None, 0)):
        settings = RuleSettings(repairs=repairs)
        assert len(findings(cluster, WITHOUT_EFFECT, settings=settings)) == count


def a_cluster(annotation: str, value: str) -> ClusterBuilder:
    """Return a RayCluster with one of the webhook's annotations."""
    return a_bare_cluster().annotation(annotation, value)


def messages(cluster: ClusterBuilder) -> list[str]:
    return [each.message for each in findings(cluster, WITHOUT_EFFECT)]


@pytest.mark.parametrize(
    ("annotation", "value", "reason"),
    [
        (names.ANNOTATION_UNIT, "worker-group", "no group has several pods"),
        (names.ANNOTATION_UNIT, "other=worker-group", "there is no group other"),
        (names.ANNOTATION_TOPOLOGY_KEY, "nvidia.com/gpu.clique", "no unit has several hosts"),
        (names.ANNOTATION_PROFILES, "torchrun", "no unit has several hosts"),
        (names.ANNOTATION_PROFILES, "torch-tpu", "profile torch-tpu is for TPUs"),
        (names.ANNOTATION_SCHEDULING_GROUP, "replica", "no unit has several hosts"),
        (names.ANNOTATION_REPAIR, "true", "no unit has several hosts"),
        (names.ANNOTATION_RESTART, "replica", "no unit has several hosts"),
        (names.ANNOTATION_COMPUTE_DOMAIN, "replica", "groups with GPUs have one host"),
        (names.ANNOTATION_KUEUE_SLICES, "true", "Kueue queues what has the label"),
        (names.ANNOTATION_SHARD_INDEX, "0", "admission.ray.io/shard-group is not set"),
    ],
)
def test_an_opt_in_that_reaches_no_pod_says_why(annotation: str, value: str, reason: str) -> None:
    (message,) = messages(a_cluster(annotation, value).group().device(GPU, 8))
    assert message.startswith(f"no effect: {reason}")


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (names.ANNOTATION_TOPOLOGY_KEY, "nvidia.com/gpu.clique"),
        (names.ANNOTATION_PROFILES, "torchrun"),
        (names.ANNOTATION_SCHEDULING_GROUP, "replica"),
        (names.ANNOTATION_REPAIR, "true"),
        (names.ANNOTATION_RESTART, "replica"),
    ],
)
def test_a_unit_gives_it_effect(annotation: str, value: str) -> None:
    unit = a_cluster(annotation, value).annotation(names.ANNOTATION_UNIT, "worker-group")
    assert messages(unit.group(replicas=4).device(GPU, 8)) == []
    several = a_cluster(annotation, value)
    assert messages(several.group(hosts=4).device(GPU, 8)) == []


def test_a_profile_of_gpus_needs_gpus() -> None:
    (message,) = messages(a_cluster(names.ANNOTATION_PROFILES, "vllm").group(hosts=2))
    assert message == "no effect: profile vllm is for GPUs, and no group asks for any"


def test_the_unit_of_a_tpu_slice_stays_the_replica() -> None:
    cluster = a_cluster(names.ANNOTATION_UNIT, "worker-group")
    (message,) = messages(cluster.group(hosts=4, replicas=2).tpu("4x4", 4))
    assert message == "no effect: the unit of TPU slices is the replica: remove it"


def test_names_of_hosts_are_given_anyway_to_several() -> None:
    cluster = a_cluster(names.ANNOTATION_HOST_NAMES, "true").group(hosts=4)
    (message,) = messages(cluster)
    assert message.startswith("no effect: all hosts have names")
    assert messages(cluster.group("single")) == []


def test_templates_may_take_away_what_an_annotation_gives() -> None:
    label = a_cluster(names.ANNOTATION_REPLICA_LABEL, "true").group()
    assert messages(label) == []
    (message,) = messages(label.env(names.RAY_OVERRIDE_LABELS, "{}"))
    assert message.endswith(f"set {names.RAY_OVERRIDE_LABELS}")
    drain = a_cluster(names.ANNOTATION_DRAIN_SECONDS, "60").group()
    assert messages(drain) == []
    (message,) = messages(drain.env(names.RAY_DRAIN_TIMEOUT, "0"))
    assert message.endswith(f"set {names.RAY_DRAIN_TIMEOUT} to 0")


def test_a_cluster_without_groups_has_nothing_to_say() -> None:
    assert messages(a_cluster(names.ANNOTATION_REPAIR, "true")) == []


def test_a_unit_of_a_fixed_size_may_autoscale_beside_others() -> None:
    cluster = a_cluster(names.ANNOTATION_UNIT, "ranks=worker-group").autoscaled()
    cluster.group("ranks", replicas=4, minReplicas=4, maxReplicas=4).group("serve")
    assert found(cluster) == set()


def test_the_identity_of_a_host_in_a_unit_is_not_written_by_hand() -> None:
    cluster = a_cluster(names.ANNOTATION_UNIT, "worker-group").group(replicas=4)
    cluster.env(names.NODE_RANK, "1")
    assert rules(cluster) == {"identity-by-hand"}


@pytest.mark.parametrize(("before", "after", "kept"), [(4, 6, 4), (6, 4, 4)])
def test_an_update_of_replicas_says_which_pods_keep_the_old_size(
    before: int, after: int, kept: int
) -> None:
    def unit(replicas: int) -> ClusterBuilder:
        return a_cluster(names.ANNOTATION_UNIT, "worker-group").group("ranks", replicas=replicas)

    (finding,) = check_update("RayCluster", unit(before).build(), unit(after).build())
    assert finding.rule == "unit-resized"
    assert finding.message == (
        f"{kept} running pods of group ranks keep NNODES={before}: delete them all"
    )


def later(before: ClusterBuilder, after: ClusterBuilder) -> list[str]:
    """Return what is said of annotations that an update adds or changes."""
    found = check_update("RayCluster", before.build(), after.build())
    return [each.message for each in found if each.rule == "annotation-for-new-pods"]


def test_an_annotation_that_is_added_reaches_new_pods_alone() -> None:
    def cluster(*annotations: tuple[str, str], replicas: int = 1) -> ClusterBuilder:
        found = a_bare_cluster().group(hosts=4, replicas=replicas)
        for annotation, value in annotations:
            found.annotation(annotation, value)
        return found

    key = names.ANNOTATION_TOPOLOGY_KEY, "rack"
    other = names.ANNOTATION_TOPOLOGY_KEY, "row"
    drain = names.ANNOTATION_DRAIN_SECONDS, "60"
    (added,) = later(cluster(), cluster(key))
    assert added.startswith("applies to pods that are created from now on: ")
    assert len(later(cluster(key), cluster(other))) == 1
    (both,) = later(cluster(), cluster(key, drain))
    assert ", as 1 more do: " in both
    assert later(cluster(key), cluster(key)) == []
    assert later(cluster(key), cluster()) == []
    assert later(cluster(replicas=0), cluster(key, replicas=0)) == []
