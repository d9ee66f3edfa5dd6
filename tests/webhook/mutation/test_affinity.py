"""Hosts of one replica are placed together and separate from others."""

from typing import Any

import pytest

from tests.builders import NAMESPACE, Object, PodBuilder, a_cluster, a_pod, decide
from webhook.api import names
from webhook.mutation.ray_pod import Policy

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
KINDS = ("podAffinity", "podAntiAffinity")
CLUSTER = a_cluster("c").group("g", hosts=2).group("single")


def a_host() -> PodBuilder:
    return a_pod().worker("g").of("c").tpu(4).identity(0, 0, "g-xh3hf")


def terms(pod: Object, kind: str) -> list[Object]:
    found: list[Object] = pod["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, [])
    return found


def topology_keys(pod: Object) -> set[str]:
    return {term["topologyKey"] for kind in KINDS for term in terms(pod, kind)}


def matches(term: Object, namespace: str, labels: dict[str, str]) -> bool:
    """Return whether a term of a pod in NAMESPACE selects a pod, as the scheduler does."""
    if term.get("namespaceSelector") != {} and namespace != NAMESPACE:
        return False
    selector = term["labelSelector"]
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions", []))


def _holds(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    key = expression["key"]
    if expression["operator"] == "Exists":
        return key in labels
    assert expression["operator"] in {"In", "NotIn"}
    return (labels.get(key) in expression["values"]) is (expression["operator"] == "In")


WORKER = {names.LABEL_NODE_TYPE: names.NODE_TYPE_WORKER}
SAME = {**WORKER, names.LABEL_CLUSTER: "c", names.LABEL_REPLICA_NAME: "g-xh3hf"}
OTHERS = [
    (NAMESPACE, {**SAME, names.LABEL_REPLICA_NAME: "g-b2c4d"}),
    (NAMESPACE, {**SAME, names.LABEL_CLUSTER: "other"}),
    ("elsewhere", {**SAME, names.LABEL_CLUSTER: "other", names.LABEL_REPLICA_NAME: "x-b2c4d"}),
]
STRANGERS = [
    (NAMESPACE, {"app": "web"}), (NAMESPACE, {names.LABEL_CLUSTER: "c"}), ("elsewhere", {}),
    ("elsewhere", {**SAME, names.LABEL_CLUSTER: "d", names.LABEL_NODE_TYPE: "head"}),
    ("elsewhere", {names.LABEL_CLUSTER: "d", names.LABEL_REPLICA_NAME: "x"}),
]  # fmt: skip


def test_a_host_wants_to_be_with_its_replica_and_with_no_other() -> None:
    pod = decide(a_host(), CLUSTER).pod
    together, apart = terms(pod, "podAffinity"), terms(pod, "podAntiAffinity")
    assert all(matches(term, NAMESPACE, SAME) for term in together)
    assert not any(matches(term, NAMESPACE, SAME) for term in apart)
    for namespace, labels in OTHERS:
        assert not all(matches(term, namespace, labels) for term in together)
        assert any(matches(term, namespace, labels) for term in apart), labels
    for namespace, labels in STRANGERS:
        assert not any(matches(term, namespace, labels) for term in apart), labels


def test_the_first_host_of_a_replica_matches_its_own_term() -> None:
    pod = decide(a_pod().worker("g").of("c").tpu(4), CLUSTER).pod
    (term,) = terms(pod, "podAffinity")
    assert matches(term, NAMESPACE, pod["metadata"]["labels"])


@pytest.mark.parametrize("affinity", [
    {}, None, {"podAffinity": None}, {"podAffinity": {}}, {"podAntiAffinity": {REQUIRED: None}},
    {"podAffinity": {REQUIRED: []}},
])  # fmt: skip
def test_an_affinity_that_says_nothing_is_filled(affinity: Object | None) -> None:
    pod = decide(a_host().spec(affinity=affinity), CLUSTER).pod
    assert (len(terms(pod, "podAffinity")), len(terms(pod, "podAntiAffinity"))) == (1, 2)


@pytest.mark.parametrize(("pod", "default"), [
    (a_pod().worker("g").of("c").gpu(8), set()), (a_pod().worker("g").of("c"), set()),
    (a_host(), {names.NODE_POOL}),
])  # fmt: skip
def test_only_tpu_replicas_have_terms_without_a_key(pod: PodBuilder, default: set[str]) -> None:
    assert topology_keys(decide(pod, CLUSTER).pod) == default
    opted = a_cluster("c").group("g", hosts=2).opting(topology_key="nvidia.com/gpu.clique")
    assert topology_keys(decide(pod, opted).pod) == {"nvidia.com/gpu.clique"}


@pytest.mark.parametrize("key", ["a/b/c", "-x", "a b", "x" * 64])
def test_a_topology_key_that_is_no_label_key_is_a_warning_and_gives_no_affinity(key: str) -> None:
    decided = decide(a_host(), a_cluster("c").group("g", hosts=2).opting(topology_key=key))
    assert "affinity" not in decided.pod["spec"]
    (warning,) = decided.answer.warnings
    assert names.ANNOTATION_TOPOLOGY_KEY in warning


def test_a_single_host_gets_none() -> None:
    assert "affinity" not in decide(a_pod().worker("single").of("c").tpu(4), CLUSTER).pod["spec"]


def test_a_policy_may_keep_replicas_apart_only_from_those_of_their_namespace() -> None:
    apart = terms(decide(a_host(), CLUSTER, Policy(apart="own")).pod, "podAntiAffinity")
    other = {**SAME, names.LABEL_CLUSTER: "other"}
    assert any(matches(term, NAMESPACE, other) for term in apart)
    assert not any(matches(term, "elsewhere", other) for term in apart)
