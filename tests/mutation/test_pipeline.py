"""What a head receives, and by which annotations of its RayCluster."""

import json

import pytest

from tests.builders import a_cluster, a_pod, decide
from webhook.groups.optins import ANNOTATIONS
from webhook.kube import names
from webhook.mutation.pipeline import HEAD_ASKED

VALUES = {
    names.ANNOTATION_TOPOLOGY_KEY: "nvidia.com/gpu.clique",
    names.ANNOTATION_PROFILES: "torchrun",
    names.ANNOTATION_SCHEDULING_GROUP: "cluster",
    names.ANNOTATION_SHARD_GROUP: "search",
    names.ANNOTATION_DRAIN_SECONDS: "120",
    names.ANNOTATION_RESTART: names.RESTART_REPLICA,
    names.ANNOTATION_IPPR: json.dumps({"groups": {names.HEAD_GROUP: {}}}),
}
"""A value of each annotation that takes something else than `true`."""


@pytest.mark.parametrize("annotation", [*ANNOTATIONS, names.ANNOTATION_IPPR])
def test_a_head_receives_something_by_the_annotations_that_say_so(annotation: str) -> None:
    cluster = a_cluster("c").group("g").annotated(annotation, VALUES.get(annotation, "true"))
    given = decide(a_pod().of("c").head(), cluster).patch
    assert bool(given) == (annotation in HEAD_ASKED)
