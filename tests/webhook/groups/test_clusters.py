"""The stored fields of a RayCluster."""

from tests.builders import NAMESPACE, a_cluster, cluster_config, uid_of
from webhook.api import names
from webhook.api.objects import GROUPS_MAX
from webhook.groups.group_config import ClusterIndex


def test_of_groups_with_one_name_the_first_counts() -> None:
    cluster = cluster_config(a_cluster("c").group("g", hosts=4).group("g", hosts=2))
    assert cluster.groups["g"].num_of_hosts == 4


def test_only_the_word_true_makes_a_cluster_ignored() -> None:
    assert cluster_config(a_cluster("c").label(names.LABEL_IGNORE, "true")).ignored
    assert not cluster_config(a_cluster("c").label(names.LABEL_IGNORE, "True")).ignored


def test_a_recreated_cluster_replaces_the_old_one_and_outlives_its_late_removal() -> None:
    index = ClusterIndex()
    index.put(cluster_config(a_cluster("c")))
    index.remove(NAMESPACE, "c", "an-older-uid")
    assert index.get(NAMESPACE, "c") is not None
    index.remove(NAMESPACE, "c", uid_of("c"))
    assert index.get(NAMESPACE, "c") is None
    assert len(index) == 0
    index.remove(NAMESPACE, "c", uid_of("c"))


def test_a_cluster_whose_facts_did_not_change_stays_the_same_object() -> None:
    index = ClusterIndex()
    first, again, other = (
        cluster_config(a_cluster("c").group("g", hosts=hosts)) for hosts in (2, 2, 4)
    )
    index.put(first)
    index.put(again)
    assert index.get(first.namespace, "c") is first
    index.put(other)
    assert index.get(first.namespace, "c") is other


def test_further_groups_than_the_maximum_are_not_read() -> None:
    built = a_cluster("c")
    for number in range(GROUPS_MAX + 1):
        built.group(f"g{number}")
    assert list(cluster_config(built).groups) == [f"g{number}" for number in range(GROUPS_MAX)]
