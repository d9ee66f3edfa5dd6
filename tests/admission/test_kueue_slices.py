"""A RayCluster with the annotation receives, on creation, Kueue's annotations that keep the hosts
of each replica together.
"""

import asyncio
import json

import jsonpatch
import pytest

from tests.apiserver import Object, object_review
from tests.builders import ClusterBuilder, Webhook, a_cluster
from webhook.admission.reviewer import Mutation
from webhook.admission.shard_handler import ShardHandler
from webhook.api import names
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_index import Membership
from webhook.reservation.reservations import standalone

SELECTING = {names.NODE_TPU_ACCELERATOR: "tpu-v6e-slice", names.NODE_TPU_TOPOLOGY: "4x4"}
CONTAINERS = [{"name": "ray-worker", "image": "rayproject/ray:2.54.0"}]


def template(annotations: object = None, **spec: object) -> Object:
    found: Object = {"spec": {"containers": CONTAINERS, **spec}}
    return found if annotations is None else {"metadata": {"annotations": annotations}, **found}


def an_asking_cluster() -> ClusterBuilder:
    """Return a RayCluster in a queue that asks for slices."""
    cluster = a_cluster("c").annotated(names.ANNOTATION_KUEUE_SLICES, "true")
    return cluster.labelled(names.LABEL_KUEUE_QUEUE, "tpus")


def created(cluster: ClusterBuilder) -> tuple[Object, list[str]]:
    """Return a RayCluster after its creation, and the warnings."""
    return reviewed(cluster.build())


def reviewed(document: Object, old: Object | None = None) -> tuple[Object, list[str]]:
    """Return a RayCluster after a review, and the warnings."""
    review = object_review(document, old=old)
    clusters = ClusterIndex()
    shards = ShardHandler(clusters, standalone(Membership(), clusters))
    mutation = Mutation(Webhook().handler, shards=shards)
    outcome = asyncio.run(mutation.review(json.dumps(review).encode()))
    patch = json.loads(outcome.answer.patch or b"[]")
    stored: Object = jsonpatch.apply_patch(document, patch)
    return stored, list(outcome.answer.warnings)


def annotations_of(document: Object) -> list[Object]:
    return [
        group["template"].get("metadata", {}).get("annotations", {})
        for group in document["spec"]["workerGroupSpecs"]
    ]


def test_the_hosts_of_a_whole_slice_are_kept_in_one_node_pool() -> None:
    stored, warnings = created(
        an_asking_cluster().group("g", hosts=4, template=template(nodeSelector=SELECTING))
    )
    assert annotations_of(stored) == [
        {names.KUEUE_SLICE_REQUIRED_TOPOLOGY: names.NODE_POOL, names.KUEUE_SLICE_SIZE: "4"}
    ]
    assert warnings == []


@pytest.mark.parametrize("annotations", [None, {}, {"mine": "stays"}])
def test_the_level_is_the_key_that_the_user_names_and_what_is_there_stays(
    annotations: Object | None,
) -> None:
    cluster = an_asking_cluster().annotated(names.ANNOTATION_TOPOLOGY_KEY, "rack")
    stored, warnings = created(cluster.group("g", hosts=2, template=template(annotations)))
    added = {names.KUEUE_SLICE_REQUIRED_TOPOLOGY: "rack", names.KUEUE_SLICE_SIZE: "2"}
    assert annotations_of(stored) == [{**(annotations or {}), **added}]
    assert warnings == []


def test_nothing_else_of_the_object_changes() -> None:
    cluster = (
        an_asking_cluster()
        .group("one")
        .group("g", hosts=2, template=template(nodeSelector=SELECTING))
    )
    stored, _ = created(cluster)
    del stored["spec"]["workerGroupSpecs"][1]["template"]["metadata"]
    assert stored == cluster.build()


@pytest.mark.parametrize(
    "said",
    [names.KUEUE_SLICE_REQUIRED_TOPOLOGY, names.KUEUE_SLICE_CONSTRAINTS, names.KUEUE_GROUP_NAME],
)
def test_who_said_it_already_is_left_alone(said: str) -> None:
    cluster = an_asking_cluster().group(
        "g", hosts=2, template=template({said: "x"}, nodeSelector=SELECTING)
    )
    assert created(cluster) == (cluster.build(), [])


@pytest.mark.parametrize("part", [None, {names.ANNOTATION_SLICE_TOPOLOGY: "2x4"}])
def test_where_nobody_knows_a_level_a_warning_asks_for_one(part: Object | None) -> None:
    selector = SELECTING if part else {}
    cluster = an_asking_cluster().group(
        "g", hosts=2, template=template(part, nodeSelector=selector)
    )
    stored, (warning,) = created(cluster)
    assert stored == cluster.build()
    assert names.ANNOTATION_TOPOLOGY_KEY in warning
    assert len(warning) <= 120


@pytest.mark.parametrize("replicas", [0, None])
def test_a_group_of_0_replicas_gets_none_as_kueue_would_refuse_the_cluster(
    replicas: int | None,
) -> None:
    cluster = an_asking_cluster().group(
        "g", hosts=4, replicas=replicas, template=template(nodeSelector=SELECTING)
    )
    stored, (warning,) = created(cluster)
    assert stored == cluster.build()
    assert "0 replicas" in warning
    assert len(warning) <= 120


def test_only_who_asks_in_a_queue_of_its_own_and_only_when_it_is_created() -> None:
    group = template(nodeSelector=SELECTING)
    for cluster in (
        a_cluster("c"),
        a_cluster("c").annotated(names.ANNOTATION_KUEUE_SLICES, "true"),
        an_asking_cluster().annotated(names.ANNOTATION_KUEUE_SLICES, "false"),
        an_asking_cluster().labelled(names.LABEL_ORIGIN_KIND, "RayJob"),
    ):
        assert created(cluster.group("g", hosts=4, template=group)) == (cluster.build(), [])
    asking = an_asking_cluster().group("g", hosts=4, template=group)
    assert reviewed(asking.build(), asking.build()) == (asking.build(), [])
    ignored = (
        an_asking_cluster().labelled(names.LABEL_IGNORE, "true").group("g", hosts=4, template=group)
    )
    assert created(ignored) == (ignored.build(), [])


def test_a_shard_gets_its_index_beside_it() -> None:
    cluster = (
        an_asking_cluster()
        .annotated(names.ANNOTATION_SHARD_GROUP, "s")
        .group("g", hosts=4, template=template(nodeSelector=SELECTING))
    )
    stored, _ = created(cluster)
    assert stored["metadata"]["annotations"][names.ANNOTATION_SHARD_INDEX] == "0"
    assert annotations_of(stored)[0][names.KUEUE_SLICE_SIZE] == "4"


@pytest.mark.parametrize("metadata", [None, {}, {"annotations": None}])
def test_a_template_is_extended_whatever_it_lacks(metadata: Object | None) -> None:
    cluster = an_asking_cluster().annotated(names.ANNOTATION_TOPOLOGY_KEY, "rack")
    document = cluster.group("g", hosts=4).group("h", hosts=4).build()
    first, second = document["spec"]["workerGroupSpecs"]
    first["template"] = {"metadata": metadata}
    del second["template"]
    stored, _ = reviewed(document)
    added = {names.KUEUE_SLICE_REQUIRED_TOPOLOGY: "rack", names.KUEUE_SLICE_SIZE: "4"}
    first["template"]["metadata"] = {"annotations": added}
    assert stored == document


@pytest.mark.parametrize("groups", ["x", [1], [{"template": "x"}], [{"numOfHosts": "two"}]])
def test_a_spec_that_is_none_is_left_to_the_api_server(groups: object) -> None:
    document = an_asking_cluster().build()
    document["spec"]["workerGroupSpecs"] = groups
    assert reviewed(document)[0] == document
