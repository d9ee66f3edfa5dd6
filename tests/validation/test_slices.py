"""Sub-slices and slices that Kueue forms, as GKE and Ray document them."""

import pytest

from tests.validation.builders import ClusterBuilder, a_cluster, found
from webhook.kube import names

GROUP = "spec.workerGroupSpecs[0]"
ANNOTATION = f"{GROUP}.template.metadata.annotations[{names.ANNOTATION_SLICE_TOPOLOGY}]"
SELECTOR = f"{GROUP}.template.spec.nodeSelector"
KEY = "cloud.google.com/gce-topology-subblock"


def a_part(part: str, whole: str, hosts: int, accelerator: str = "tpu-v6e-slice") -> ClusterBuilder:
    """Return a cluster with a group of sub-slices whose hosts are kept together."""
    cluster = (
        a_cluster()
        .annotation(names.ANNOTATION_TOPOLOGY_KEY, KEY)
        .group(hosts=hosts)
        .tpu(whole, 4, accelerator)
    )
    return cluster.pod_annotation(names.ANNOTATION_SLICE_TOPOLOGY, part)


@pytest.mark.parametrize(
    ("part", "whole", "hosts"),
    [("2x4", "4x4", 2), ("2x2", "2x4", 1), ("4x4", "4x4", 4), ("4x8", "16x16", 8)],
)
def test_a_sub_slice_as_documented_passes(part: str, whole: str, hosts: int) -> None:
    assert found(a_part(part, whole, hosts)) == set()


def test_the_hosts_of_a_sub_slice_are_those_of_its_own_topology() -> None:
    assert found(a_part("2x4", "4x4", 4)) == {("tpu-topology-mismatch", f"{GROUP}.numOfHosts")}


def test_a_topology_that_cannot_be_read_is_reported_where_it_stands() -> None:
    assert found(a_part("2x", "4x4", 2)) == {("tpu-topology-mismatch", ANNOTATION)}
    assert found(a_part("2x4", "4x", 2)) == {
        ("tpu-subslice-larger", f"{SELECTOR}[{names.NODE_TPU_TOPOLOGY}]")
    }


def test_a_sub_slice_of_one_host_needs_no_word_about_keeping_it_together() -> None:
    cluster = (
        a_cluster()
        .group(hosts=1)
        .tpu("2x4", 4)
        .pod_annotation(names.ANNOTATION_SLICE_TOPOLOGY, "2x2")
    )
    assert found(cluster) == set()


def test_heads_and_groups_without_tpus_are_not_concerned() -> None:
    cluster = a_cluster().group(hosts=2).pod_annotation(names.ANNOTATION_SLICE_TOPOLOGY, "nonsense")
    assert found(cluster) == set()


def test_a_user_who_wants_no_checks_of_topologies_gets_none() -> None:
    cluster = a_part("4x4", "2x8", 3).pod_annotation(names.ANNOTATION_SKIP_TPU_CHECK, "true")
    assert found(cluster) == set()
    without = (
        a_cluster()
        .group()
        .device("google.com/tpu", 4)
        .pod_annotation(names.ANNOTATION_SKIP_TPU_CHECK, "true")
    )
    assert found(without) == set()


def a_dynamic_slice(hosts: int = 4) -> ClusterBuilder:
    """Return a cluster with slices of v7x that no node has before Kueue chose the nodes."""
    cluster = (
        a_cluster()
        .label(names.LABEL_KUEUE_QUEUE, "tpus")
        .group(hosts=hosts)
        .device("google.com/tpu", 4)
    )
    return cluster.pod(nodeSelector={names.NODE_TPU_ACCELERATOR: "tpu7x"})


def test_a_slice_that_kueue_forms_selects_no_topology() -> None:
    cluster = (
        a_dynamic_slice()
        .pod_annotation(
            names.KUEUE_SLICE_REQUIRED_TOPOLOGY, "cloud.google.com/gke-tpu-partition-2x2x4-id"
        )
        .pod_annotation(names.KUEUE_SLICE_SIZE, "4")
    )
    assert found(cluster) == set()


def test_a_slice_in_a_queue_that_an_annotation_names_selects_no_topology_either() -> None:
    rules = {
        rule
        for rule, _ in found(
            a_dynamic_slice().pod_annotation(names.ANNOTATION_SLICE_TOPOLOGY, "2x2x4")
        )
    }
    assert "tpu-node-selector-missing" not in rules
    assert ("tpu-topology-mismatch", f"{GROUP}.numOfHosts") in found(
        a_dynamic_slice(hosts=2).pod_annotation(names.ANNOTATION_SLICE_TOPOLOGY, "2x2x4")
    )


def test_without_a_queue_or_a_placer_the_topology_has_to_be_selected() -> None:
    cluster = (
        a_cluster()
        .group(hosts=4)
        .device("google.com/tpu", 4)
        .pod(nodeSelector={names.NODE_TPU_ACCELERATOR: "tpu7x"})
    )
    assert found(cluster) == {
        ("tpu-node-selector-missing", f"{SELECTOR}[{names.NODE_TPU_TOPOLOGY}]")
    }
