"""Ray's container can grow in place if the RayCluster lists its group."""

import pytest

from tests.builders import ClusterBuilder, Decided, Object, PodBuilder, a_cluster, a_pod, decide
from webhook.api import names

BOTH = [
    {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    {"resourceName": "memory", "restartPolicy": "NotRequired"},
]
RESTART_CPU = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}


def listing(*groups: str) -> ClusterBuilder:
    """Return a RayCluster that lists groups in `ray.io/ippr`."""
    entry = '{"max-cpu": "8", "max-memory": "32Gi", "resize-timeout": 60}'
    text = ", ".join(f'"{group}": {entry}' for group in groups)
    return (
        a_cluster("c")
        .group("g")
        .group("other")
        .annotated(names.ANNOTATION_IPPR, f'{{"groups": {{{text}}}}}')
    )


def a_worker(group: str = "g") -> PodBuilder:
    return a_pod().of("c").worker(group)


def rules_of(decided: Decided, container: int = 0) -> list[Object] | None:
    found: list[Object] | None = decided.pod["spec"]["containers"][container].get("resizePolicy")
    return found


def with_rules(*rules: Object, **spec: object) -> PodBuilder:
    """Return a worker whose Ray container has a resize policy."""
    return a_worker().spec(
        containers=[{"name": "ray-worker", "image": "ray", "resizePolicy": list(rules)}], **spec
    )


def test_only_the_ray_container_of_a_listed_group_gets_both_entries() -> None:
    decided = decide(a_worker().container("sidecar").init("prepare"), listing("g"))
    assert rules_of(decided) == BOTH
    assert rules_of(decided, 1) is None
    assert "resizePolicy" not in decided.pod["spec"]["initContainers"][0]
    assert rules_of(decide(a_worker("other"), listing("g"))) is None


def test_the_head_is_listed_as_headgroup() -> None:
    head = a_pod().of("c").head()
    assert rules_of(decide(head, listing("headgroup"))) == BOTH
    assert rules_of(decide(head, listing("g"))) is None


def test_an_entry_of_the_user_stays_and_the_missing_one_is_appended() -> None:
    decided = decide(with_rules(BOTH[1]), listing("g"))
    assert rules_of(decided) == [BOTH[1], BOTH[0]]
    assert not decided.answer.warnings


def test_an_empty_list_is_filled() -> None:
    assert rules_of(decide(with_rules(), listing("g"))) == BOTH


def test_a_restart_that_ray_refuses_stays_with_a_warning() -> None:
    decided = decide(with_rules(RESTART_CPU), listing("g"))
    assert rules_of(decided) == [RESTART_CPU, BOTH[1]]
    assert "cpu" in decided.answer.warnings[0]


def test_a_restart_that_kubernetes_refuses_has_a_warning() -> None:
    decided = decide(with_rules(RESTART_CPU, restartPolicy="Never"), listing("g"))
    assert "restartPolicy Never" in decided.answer.warnings[0]


def test_only_pods_of_listed_groups_get_a_resize_policy() -> None:
    assert rules_of(decide(a_worker("g"), listing("g"))) == BOTH
    assert rules_of(decide(a_worker("other"), listing("g"))) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"groups": []}', '{"groups": {"g": 1}}'])
def test_an_annotation_that_ray_refuses_lists_nothing(text: str) -> None:
    cluster = a_cluster("c").group("g").annotated(names.ANNOTATION_IPPR, text)
    assert rules_of(decide(a_worker(), cluster)) is None
