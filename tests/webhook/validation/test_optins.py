"""The annotations of the webhook: an unknown value is reported when the object is applied."""

import pytest

from tests.harness.ray_objects import Built, a_cluster, a_job, a_service, found
from webhook.api import names
from webhook.groups.annotations import OPT_INS, RULE, OptIn

WRONG = {
    names.ANNOTATION_PROFILES: ("torchrunn", "vllm,Torch", "None", "none,vllm", "vllm, none"),
    names.ANNOTATION_TOPOLOGY_KEY: ("not a key!", "a/b/c", "-x"),
    names.ANNOTATION_SCHEDULING_GROUP: ("pods", "Replica"),
    names.ANNOTATION_SHARD_GROUP: ("no value!", "x" * 64),
    names.ANNOTATION_SHARD_INDEX: ("one", "-1", "007"),
    names.ANNOTATION_SHARD_COUNT: ("0", "-1", "08", "1048577", "eight"),
    names.ANNOTATION_KEEP_NODES: ("true", "head", "None"),
    names.ANNOTATION_REPAIR: ("yes", "replica"),
    names.ANNOTATION_RESTART: ("true", "pod"),
    names.ANNOTATION_REPLICA_LABEL: ("yes", "replica"),
    names.ANNOTATION_NODE_LABELS: ("rack", "rack=", "=rack", "a b=c", "rack=r,x/y/z=r"),
    names.ANNOTATION_COMPUTE_DOMAIN: ("true", "group", "Replica"),
    names.ANNOTATION_MAX_DISRUPTED: ("one", "-1", "01", "65537", "25%"),
    names.ANNOTATION_DRAIN_SECONDS: ("2m", "1.5", "-1", "030", "86401", "٣"),
}
RIGHT = {
    names.ANNOTATION_PROFILES: ("torchrun", "torch-tpu", " vllm , mnnvl,", "none", "none,none"),
    names.ANNOTATION_TOPOLOGY_KEY: ("nvidia.com/gpu.clique", "rack"),
    names.ANNOTATION_SCHEDULING_GROUP: ("worker-group",),
    names.ANNOTATION_SHARD_GROUP: ("search",), names.ANNOTATION_SHARD_INDEX: ("0", "12"),
    names.ANNOTATION_SHARD_COUNT: ("1", "1048576"),
    names.ANNOTATION_KEEP_NODES: ("none", "heads", "replicas", "all"),
    names.ANNOTATION_REPAIR: ("true", "false"), names.ANNOTATION_RESTART: ("replica",),
    names.ANNOTATION_REPLICA_LABEL: ("true", "false"),
    names.ANNOTATION_NODE_LABELS: ("nvidia.com/gpu.clique=ray.io/gpu-domain", " a=b, c=d "),
    names.ANNOTATION_COMPUTE_DOMAIN: ("cluster", "worker-group", "replica"),
    names.ANNOTATION_MAX_DISRUPTED: ("0", "1", "65536"),
    names.ANNOTATION_DRAIN_SECONDS: ("0", "120", "86400"),
}  # fmt: skip


@pytest.mark.parametrize("row", OPT_INS, ids=lambda row: row.annotation)
def test_every_wrong_value_of_every_annotation_is_found(row: OptIn[object]) -> None:
    for value in WRONG[row.annotation]:
        cluster = a_cluster().group(hosts=2).annotation(row.annotation, value)
        assert (RULE, f"metadata.annotations[{row.annotation}]") in found(cluster), value


@pytest.mark.parametrize("row", OPT_INS, ids=lambda row: row.annotation)
def test_every_right_value_passes(row: OptIn[object]) -> None:
    for value in (*RIGHT[row.annotation], *(f" {value}\t" for value in RIGHT[row.annotation])):
        cluster = a_cluster().group(hosts=2).annotation(row.annotation, value)
        assert RULE not in {rule for rule, _ in found(cluster)}, value


@pytest.mark.parametrize("built", [a_job(), a_service()], ids=["RayJob", "RayService"])
def test_an_annotation_that_kuberay_copies_is_checked_where_it_is_written(built: Built) -> None:
    assert (RULE, f"metadata.annotations[{names.ANNOTATION_PROFILES}]") in found(
        built.annotation(names.ANNOTATION_PROFILES, "torchrunn")
    )
