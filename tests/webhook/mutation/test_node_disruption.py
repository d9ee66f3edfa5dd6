"""Pods whose nodes autoscalers leave alone."""

import pytest

from tests.builders import ClusterBuilder, Object, PodBuilder, a_cluster, a_pod, decide
from webhook.api import names
from webhook.mutation.ray_pod import Policy

KEPT = {names.SAFE_TO_EVICT: "false", names.DO_NOT_DISRUPT: "true"}


def a_cluster_with(scope: str) -> ClusterBuilder:
    cluster = a_cluster("c").group("four", hosts=4).group("single")
    return cluster.opting(keep_nodes=scope) if scope else cluster


def a_host() -> PodBuilder:
    return a_pod().of("c").worker("four").identity(0, 1, "four-xh3hf")


def kept(pod: Object) -> dict[str, str]:
    annotations = pod["metadata"].get("annotations", {})
    return {key: annotations[key] for key in KEPT if key in annotations}


@pytest.mark.parametrize(("scope", "head", "host"), [
    ("", {}, {}), ("none", {}, {}), ("heads", KEPT, {}), ("replicas", {}, KEPT),
    ("all", KEPT, KEPT),
])  # fmt: skip
def test_heads_and_hosts_keep_nodes(scope: str, head: dict[str, str], host: dict[str, str]) -> None:
    cluster = a_cluster_with(scope)
    assert kept(decide(a_pod().of("c").head(), cluster).pod) == head
    assert kept(decide(a_host(), cluster).pod) == host
    assert kept(decide(a_pod().of("c").worker("single"), cluster).pod) == {}


def test_the_annotation_takes_precedence_over_the_setting() -> None:
    policy = Policy(keep_nodes="all")
    assert kept(decide(a_host(), a_cluster_with(""), policy).pod) == KEPT
    assert kept(decide(a_host(), a_cluster_with("none"), policy).pod) == {}


@pytest.mark.parametrize("key", KEPT)
def test_a_template_that_sets_one_of_them_is_not_changed(key: str) -> None:
    pod = a_host().annotated(key, "of the user")
    assert kept(decide(pod, a_cluster_with("all")).pod) == {key: "of the user"}


@pytest.mark.parametrize("annotated", [False, True])
def test_a_head_whose_gcs_is_fault_tolerant_is_not_kept(annotated: bool) -> None:
    cluster = a_cluster_with("all")
    if annotated:
        cluster.annotated(names.ANNOTATION_FT_ENABLED, "true")
    else:
        cluster.spec(gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
    assert kept(decide(a_pod().of("c").head(), cluster).pod) == {}
    assert kept(decide(a_host(), cluster).pod) == KEPT


@pytest.mark.parametrize(("name", "expected"), [("Accelerator", {}), ("own", KEPT)])
def test_pods_of_autopilot_are_not_changed(name: str, expected: dict[str, str]) -> None:
    pod = a_host().spec(nodeSelector={names.NODE_COMPUTE_CLASS: name})
    assert kept(decide(pod, a_cluster_with("all")).pod) == expected


def test_an_unknown_value_is_a_warning() -> None:
    decided = decide(a_host(), a_cluster_with("some"))
    assert kept(decided.pod) == {}
    assert any("keep-nodes" in warning for warning in decided.answer.warnings)
