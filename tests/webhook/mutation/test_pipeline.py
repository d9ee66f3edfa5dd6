"""The patch of a head, by the annotations of its RayCluster."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import a_cluster, a_pod, decide, manifest
from tests.webhook.groups.test_optins import RIGHT
from tests.webhook.mutation.strategies import Case, cases
from webhook.api import names
from webhook.groups.annotations import ANNOTATIONS
from webhook.groups.group_config import read_cluster_config
from webhook.manifest.views import as_cluster, as_pod
from webhook.mutation.pipeline import HEAD_OPT_INS, head_receives, replica_edits
from webhook.mutation.ray_pod import HEAD_GROUP, HEAD_IDENTITY, Policy, read_replica

VALUES = RIGHT | {names.ANNOTATION_IPPR: (json.dumps({"groups": {names.HEAD_GROUP: {}}}),)}


@pytest.mark.parametrize("annotation", [*ANNOTATIONS, names.ANNOTATION_IPPR])
def test_a_head_receives_something_by_the_annotations_that_say_so(annotation: str) -> None:
    gpu = [{"name": "ray-head", "resources": {"limits": {"nvidia.com/gpu": 4}}}]
    cluster = a_cluster("c").head(containers=gpu).group("g")
    cluster.annotated(annotation, VALUES[annotation][0])
    patch = decide(a_pod().of("c").head(), cluster).patch
    assert bool(patch) == (annotation in HEAD_OPT_INS)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(cases(), st.booleans())
def test_a_head_that_is_not_read_would_have_received_nothing(case: Case, zones: bool) -> None:
    cluster_config = read_cluster_config(as_cluster(manifest(case.cluster)))
    policy = Policy(zones=zones)
    head = as_pod(manifest(case.pod))
    replica = read_replica(head, HEAD_IDENTITY, cluster_config, HEAD_GROUP, policy=policy)
    assert head_receives(cluster_config, policy) or not replica_edits(replica)


@pytest.mark.parametrize("asked", [False, True])
def test_a_head_is_read_only_where_it_may_receive_something(asked: bool) -> None:
    cluster = a_cluster("c").group("g")
    if asked:
        cluster.opting(shard_group="search")
    head = a_pod().of("c").head().spec(containers=[{"name": "ray-head", "env": [1]}])
    assert decide(head, cluster).answer.allowed is not asked
