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


def rules_of(decided: Decided) -> list[Object] | None:
    found: list[Object] | None = decided.pod["spec"]["containers"][0].get("resizePolicy")
    return found


def with_rules(*rules: Object, **spec: object) -> PodBuilder:
    return a_worker().spec(
        containers=[{"name": "ray-worker", "image": "ray", "resizePolicy": list(rules)}], **spec
    )


def test_only_a_listed_group_gets_both_entries() -> None:
    assert rules_of(decide(a_worker(), listing("g"))) == BOTH
    assert rules_of(decide(a_worker("other"), listing("g"))) is None


@pytest.mark.parametrize(("pod", "listed", "rules", "warning"), [
    (a_pod().of("c").head(), "headgroup", BOTH, ""), (a_pod().of("c").head(), "g", None, ""),
    (with_rules(), "g", BOTH, ""), (with_rules(BOTH[1]), "g", [BOTH[1], BOTH[0]], ""),
    (with_rules(RESTART_CPU), "g", [RESTART_CPU, BOTH[1]], "cpu"),
    (with_rules(RESTART_CPU, restartPolicy="Never"), "g", [RESTART_CPU, BOTH[1]],
     "restartPolicy Never"),
])  # fmt: skip
def test_entries_of_the_user_stay_and_missing_ones_are_appended(
    pod: PodBuilder, listed: str, rules: list[Object] | None, warning: str
) -> None:
    decided = decide(pod, listing(listed))
    assert rules_of(decided) == rules
    assert warning in "".join(decided.answer.warnings[:1])
    assert bool(decided.answer.warnings) == bool(warning)
