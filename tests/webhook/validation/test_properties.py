"""Properties of all rules: malformed input never raises, and one mistake violates one rule."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.ray_objects import (
    ClusterBuilder,
    Json,
    a_cluster,
    fields_of,
    found,
    found_in_update,
)
from tests.webhook.validation.samples import Sample, assigned, base, samples
from webhook.validation.finding import OFF
from webhook.validation.rule_settings import GATES, RuleSettings
from webhook.validation.rules import RULES
from webhook.validation.ruleset import check, check_update, unknown_names

ALL_GATES = RuleSettings(gates=dict.fromkeys(GATES, True))
GARBAGE: list[Any] = [
    None, "x", "", 0, -1, 2**70, 1.5, float("nan"), True, False, [], {}, [None], [[]], ["x"],
    {"x": None}, {"name": {}}, [{"name": 1}],
]  # fmt: skip


WHOLE = [
    assigned(overlay)
    for sample in samples().values()
    for overlay in (sample.fails, sample.passes)
    if "repeat" not in str(overlay)
]
"""Objects that together have every field that a rule reads."""


# JSON has values of every type
def replaced(value: Any, way: tuple[str | int, ...], garbage: object) -> Any:  # noqa: ANN401
    if not way:
        return garbage
    result = copy.copy(value)
    result[way[0]] = replaced(value[way[0]], way[1:], garbage)
    return result


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob", "RayService", "RayCronJob"])
def test_garbage_in_any_one_field_never_raises(kind: str) -> None:
    richest = max(
        (value for value in WHOLE if value["kind"] == kind),
        key=lambda value: len(json.dumps(value)),
    )
    for number, way in enumerate(fields_of(richest)):
        # The other kinds contain most fields of a RayCluster: a third of the values each
        for garbage in GARBAGE if kind == "RayCluster" else GARBAGE[number % 3 :: 3]:
            value = replaced(richest, way, garbage)
            for finding in [
                *check(kind, value, ALL_GATES),
                *check_update(kind, value, richest),
                *check_update(kind, richest, value),
            ]:
                assert isinstance(finding.path, str)


@given(st.data())
@settings(max_examples=150)
def test_garbage_in_several_fields_never_raises(data: st.DataObject) -> None:
    value: Any = data.draw(st.sampled_from(WHOLE))
    kind = value["kind"]
    before = data.draw(st.sampled_from([item for item in WHOLE if item["kind"] == kind]))
    for _ in range(data.draw(st.integers(1, 4))):
        way = data.draw(st.sampled_from(list(fields_of(value))))
        value = replaced(value, way, data.draw(st.sampled_from(GARBAGE)))
        if not isinstance(value, dict):
            break
    for finding in [
        *check(kind, value, ALL_GATES),
        *check_update(kind, before, value, ALL_GATES),
        *check_update(kind, value, before),
    ]:
        assert finding.path == finding.field.path


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
@settings(max_examples=40)
def test_an_object_that_is_garbage_altogether_never_raises(value: object) -> None:
    for kind in ("RayCluster", "RayJob", "RayService", "RayCronJob"):
        check(kind, value)
        check_update(kind, value, {"metadata": value, "spec": value})


@st.composite
def valid_clusters(draw: st.DrawFn) -> ClusterBuilder:
    """Return a cluster with one to four groups that has no finding."""
    cluster = a_cluster(draw(st.sampled_from(["demo", "a", "c" * 53])))
    version = draw(st.sampled_from(["", "v1", "v2"]))
    if version:
        cluster.autoscaled(version=version)
    for number in range(draw(st.integers(1, 4))):
        low = draw(st.integers(0, 3))
        high = draw(st.integers(low + 1, 9))
        scale = {"minReplicas": low, "maxReplicas": high, "replicas": draw(st.integers(low, high))}
        name = f"{draw(st.sampled_from(['tpu', 'gpu', 'g' * 40]))}-{number}"
        single = version == "v1"  # which takes hosts for replicas
        device = draw(st.sampled_from(["gpu", "none"] if single else ["tpu", "gpu", "none"]))
        if device == "tpu":
            topology, hosts = draw(st.sampled_from([("4x4", 4), ("2x4", 2), ("16x16", 64)]))
            cluster.group(name, hosts=hosts, **scale).tpu(topology, 4)
        else:
            cluster.group(name, hosts=1 if single else draw(st.integers(1, 8)), **scale)
        if device == "gpu":
            cluster.device("nvidia.com/gpu", draw(st.integers(1, 8)))
    return cluster


def _last(value: Json) -> Json:
    group: Json = value["spec"]["workerGroupSpecs"][-1]
    return group


def _pod(value: Json) -> Json:
    pod: Json = _last(value)["template"]["spec"]
    return pod


BREAKS: dict[str, Callable[[Json], object]] = {
    "name-too-long": lambda value: value["metadata"].update(name="a" * 54),
    "group-name-reserved": lambda value: _last(value).update(groupName="headgroup"),
    "group-name-invalid": lambda value: _last(value).update(groupName="a" * 64),
    "replica-bounds-invalid": lambda value: _last(value).update(maxReplicas=-1),
    "num-of-hosts-invalid": lambda value: _last(value).update(numOfHosts=0),
    "containers-missing": lambda value: _pod(value).update(containers=[]),
    "ray-start-param-unknown": lambda value: _last(value).update(rayStartParams={"num_cpus": "1"}),
    "image-version-mismatch": lambda value: _pod(value)["containers"][0].update(
        image="rayproject/ray:2.54.0"
    ),
    "redis-with-storage": lambda value: value["spec"].update(
        gcsFaultToleranceOptions={"storage": {}}
    ),
}


@given(valid_clusters())
@settings(max_examples=100)
def test_a_valid_cluster_has_no_finding(cluster: ClusterBuilder) -> None:
    assert found(cluster) == set()


@given(valid_clusters(), st.sampled_from(sorted(BREAKS)))
@settings(max_examples=150)
def test_one_break_in_a_valid_cluster_has_its_rule(cluster: ClusterBuilder, rule: str) -> None:
    value = cluster.build()
    BREAKS[rule](value)
    assert {name for name, _ in found(value)} == {rule}


@given(valid_clusters(), st.sampled_from(sorted(BREAKS)))
@settings(max_examples=100)
def test_an_update_is_denied_for_the_break_it_brings(cluster: ClusterBuilder, rule: str) -> None:
    valid, broken = cluster.build(), cluster.build()
    BREAKS[rule](broken)
    deniable = {item.id for item in RULES if item.level == "deny"}
    brought = {name for level, name, _ in found_in_update(valid, broken) if level == "deny"}
    assert (rule in brought) == (rule in deniable)
    touched = copy.deepcopy(broken)
    touched["metadata"]["labels"] = {"touched": "yes"}
    assert {level for level, _, _ in found_in_update(broken, touched)} <= {"warn"}


@pytest.mark.parametrize(("rule", "sample"), samples().items(), ids=list(samples()))
def test_every_rule_can_be_turned_off_or_turned_around(rule: str, sample: Sample) -> None:
    other = "warn" if next(item.level for item in RULES if item.id == rule) == "deny" else "deny"
    value = assigned(sample.fails)
    old = assigned(sample.old) if sample.old is not None else base(value["kind"])
    for level, allowed in ((OFF, set()), (other, {other})):
        settings_ = RuleSettings({rule: level}, sample.gates)  # type: ignore[dict-item]
        found_ = check_update(value["kind"], old, value, settings_)
        assert {each.level for each in found_ if each.rule == rule} <= allowed


def test_settings_that_name_what_does_not_exist_are_reported() -> None:
    settings_with_typos = RuleSettings(
        {"group-nam-duplicate": "warn", "group-name-duplicate": "error"},  # type: ignore[dict-item]
        {"RayClusterMtls": True},
    )
    problems = unknown_names(settings_with_typos)
    assert [problem.split(":")[0].split(";")[0] for problem in problems] == [
        "there is no rule 'group-nam-duplicate'",
        "rule group-name-duplicate cannot be 'error'",
        "there is no gate 'RayClusterMtls'",
    ]
    assert unknown_names(RuleSettings({"q": "warn"})) == [
        "there is no rule 'q'; `ray-webhook explain rule` lists all"
    ]
    assert unknown_names(RuleSettings({rule.id: rule.level for rule in RULES}, GATES)) == []
