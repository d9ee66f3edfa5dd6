"""In-place resize and autoscaling: cases in addition to the examples."""

import json
from itertools import product
from typing import Any

import pytest

from tests.harness.ray_objects import (
    ClusterBuilder,
    a_cluster,
    findings,
    found,
    found_in_update,
    rules,
)
from webhook.validation.rule_settings import RuleSettings

ANNOTATION = "metadata.annotations[ray.io/ippr]"
GROUP = "spec.workerGroupSpecs[0]"


def a_resized_cluster(**entry: object) -> ClusterBuilder:
    """A cluster whose group `workers` may grow, with the annotation's entry changed."""
    whole: dict[str, object] = {"max-cpu": "8", "max-memory": "16Gi", "resize-timeout": 60}
    whole.update({key.replace("_", "-"): value for key, value in entry.items()})
    return _annotated(json.dumps({"groups": {"workers": whole}}))


def _annotated(text: str) -> ClusterBuilder:
    image = "rayproject/ray:2.56.0"
    cluster = a_cluster().spec(rayVersion="2.56.0").annotated("ray.io/ippr", text)
    cluster.head_container(image=image, resources={"limits": {"cpu": 1}})
    return cluster.autoscaled(version="v2").group().container(image=image)


@pytest.mark.parametrize("text", [
    " ", "{", "[]", "1", '"x"', "null", '{"groups": null}', '{"groups": []}',
    '{"groups": {"workers": 1}}', "[" * 99999,
])  # fmt: skip
def test_an_annotation_that_ray_cannot_read(text: str) -> None:
    assert found(_annotated(text)) == {("ippr-malformed", ANNOTATION)}


NO_AMOUNTS: list[object] = [
    "16GB", "1ki", "", " 4", "1_000", "NaN", "-1", "0", 0, -1, True, None, [], 1.5, float("inf"),
    float("nan"),
]  # fmt: skip
AMOUNTS: list[object] = ["17179869184", 17179869184, 17179869184.0, "16Gi", "1e11", "20G"]
CORES: list[object] = ["8", 8, 4.5, "4500m"]


@pytest.mark.parametrize(("field", "value", "rule"), [
    *(("max_memory", value, "ippr-malformed") for value in NO_AMOUNTS),
    *(("max_memory", value, "") for value in AMOUNTS), *(("max_cpu", value, "") for value in CORES),
    ("resize_timeout", 60.0, ""), *(("resize_timeout", value, "ippr-value-too-low")
                                    for value in (0, -5)),
    *(("resize_timeout", value, "ippr-malformed") for value in ("60", 1.5, True, None)),
])  # fmt: skip
def test_a_value_is_read_as_by_ray(field: str, value: object, rule: str) -> None:
    expected = {(rule, ANNOTATION)} if rule else set()
    assert found(a_resized_cluster(**{field: value})) == expected


def test_one_maximum_may_equal_the_baseline_and_both_may_not() -> None:
    assert found(a_resized_cluster(max_cpu="4")) == set()
    assert found(a_resized_cluster(max_cpu="4000m", max_memory="8192Mi")) == {
        ("ippr-without-effect", ANNOTATION)
    }
    entry = {"max-cpu": "4", "max-memory": "8Gi", "resize-timeout": 60}
    text = json.dumps({"groups": {"gone": entry, "workers": entry}})
    gone, same = sorted(finding.message for finding in findings(_annotated(text)))
    assert gone.startswith('group "gone" does not exist: ')
    assert same.startswith('group "workers" has max-cpu and max-memory from the start: ')


def test_the_baseline_is_the_limit_and_else_the_request() -> None:
    cluster = a_resized_cluster(max_cpu="2")
    assert found(cluster) == {("ippr-value-too-low", ANNOTATION)}
    assert found(cluster.container(resources={"requests": {"cpu": "1", "memory": "8Gi"}})) == set()


def test_the_head_may_be_resized_by_its_groups_name() -> None:
    text = '{"groups": {"headgroup": {"max-cpu": 2, "max-memory": "16Gi", "resize-timeout": 60}}}'
    requests = "spec.headGroupSpec.template.spec.containers[0].resources.requests"
    assert found(_annotated(text)) == {
        ("ippr-group-not-resizable", f"{requests}.cpu"),
        ("ippr-group-not-resizable", f"{requests}.memory"),
    }


def test_all_reasons_of_a_group_are_found_at_once() -> None:
    cluster = a_resized_cluster(max_cpu="x", resize_timeout=0).spec(enableInTreeAutoscaling=False)
    cluster.container(resources={"requests": {"cpu": 1}})
    assert found(cluster) == {
        ("ippr-malformed", ANNOTATION), ("ippr-value-too-low", ANNOTATION),
        (
            "ippr-group-not-resizable",
            f"{GROUP}.template.spec.containers[0].resources.requests.memory"),
        ("ippr-without-effect", "spec.enableInTreeAutoscaling")}  # fmt: skip


@pytest.mark.parametrize(("ray", "paths"), [
    ("2.46.0", {"spec.autoscalerOptions.version", ANNOTATION}),
    ("2.47.0", {ANNOTATION}), ("2.57.1", set()),
])  # fmt: skip
def test_autoscaler_v2_is_implied_by_the_ray_release(ray: str, paths: set[str]) -> None:
    cluster = a_resized_cluster().spec(rayVersion=ray, autoscalerOptions=None)
    cluster.head_container(image="r:1").container(image="r:1")
    assert found(cluster) == {("ippr-without-effect", path) for path in paths}


def _levels(old: ClusterBuilder, new: ClusterBuilder) -> set[str]:
    return {level for level, rule, _ in found_in_update(old, new) if rule.startswith("ippr-")}


BROKEN = ("{", '{"groups": {"workers": {}}}', '{"groups": {"workers": {"max-cpu": 1}}}')


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize("unread", [
    {"enableInTreeAutoscaling": False}, {"autoscalerOptions": {"version": "v1"}},
    {"rayVersion": "2.55.0"},
])  # fmt: skip
def test_an_annotation_without_a_reader_is_a_warning(text: str, unread: dict[str, Any]) -> None:
    read = _annotated(text)
    assert "deny" in _levels(a_cluster().group(), read)
    new = _annotated(text).spec(**unread)
    if "rayVersion" in unread:
        new.head_container(image="r:1")
    assert _levels(a_cluster().group(), new) == {"warn"}
    assert _levels(read, new) == {"warn"}


def test_a_group_that_an_annotation_names_can_be_removed() -> None:
    old = a_resized_cluster().group("kept")
    new = a_resized_cluster()
    new.value["spec"]["workerGroupSpecs"][0]["groupName"] = "kept"
    assert _levels(old, new) == {"warn"}


@pytest.mark.parametrize(("field", "value", "path"), [
    ("rayStartParams", {"num-cpus": "4"}, "rayStartParams[num-cpus]"),
    ("rayStartParams", {"memory": "4"}, "rayStartParams[memory]"),
    ("resources", {"CPU": "4"}, "resources[CPU]"),
])  # fmt: skip
def test_groups_of_fixed_amounts_are_static(field: str, value: dict[str, str], path: str) -> None:
    cluster = a_resized_cluster()
    cluster.value["spec"]["workerGroupSpecs"][0][field] = value
    assert found(cluster) == {("ippr-group-not-resizable", f"{GROUP}.{path}")}


@pytest.mark.parametrize(("name", "value"), [
    *product(("num-cpus", "num-gpus", "memory"), ("0.5", "4Gi", "", "x", "1e3")),
    *product(("resources",), ('{"A": 1}', '"{\\"A\\": 1.5}"', '"[1]"', "x", "", '"{}')),
])  # fmt: skip
def test_amounts_that_end_the_autoscaler(name: str, value: str) -> None:
    path = f"{GROUP}.rayStartParams[{name}]"
    assert found(a_cluster().autoscaled().group(rayStartParams={name: value})) == {
        ("param-ends-autoscaler", path)
    }


@pytest.mark.parametrize(("resources", "params", "known"), [
    ({"limits": {"cpu": 1}}, {}, True), ({"requests": {"cpu": 1}}, {}, True),
    ({}, {"num-cpus": "1"}, True), ({"limits": {"memory": "1Gi"}}, {}, False),
])  # fmt: skip
def test_cpus_must_be_known(resources: dict[str, Any], params: dict[str, str], known: bool) -> None:
    path = f"{GROUP}.template.spec.containers[0].resources.limits.cpu"
    cluster = a_cluster().autoscaled().group(rayStartParams=params).container(resources=resources)
    assert found(cluster) == (set() if known else {("cpu-unknown", path)})


def test_requests_do_not_count_before_ray_2_41() -> None:
    cluster = a_cluster().spec(rayVersion="2.40.0").autoscaled().group()
    cluster.container(image="r:1", resources={"requests": {"cpu": 1}})
    assert "cpu-unknown" not in rules(cluster), "the image decides, and the head's says 2.55.1"
    assert "cpu-unknown" in rules(cluster.head_container(image="r:1"))


@pytest.mark.parametrize(("version", "policy", "wrong"), [
    ("v2", "Always", {"restart-policy-with-v2"}),
    ("v1", "OnFailure", {"restart-policy-not-never"}),
    (None, "Always", {"restart-policy-not-never"}),
    (None, "Never", set()), ("v2", None, set()),
])  # fmt: skip
def test_autoscaled_pods_last(version: str | None, policy: str | None, wrong: set[str]) -> None:
    options = {"version": version} if version else {"idleTimeoutSeconds": 60}
    assert rules(a_cluster().autoscaled(**options).group().pod(restartPolicy=policy)) == wrong


RESTARTS = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
AT_POLICY = f"{GROUP}.template.spec.containers[0].resizePolicy[0].restartPolicy"


@pytest.mark.parametrize(("cluster", "fine"), [
    (a_cluster().group().pod(restartPolicy="Never"), False),
    (a_cluster().group().pod(restartPolicy="Always"), True), (a_cluster().group(), True),
    (a_cluster().autoscaled(version="v2").group(), False),  # it makes every pod such a one
])  # fmt: skip
def test_a_pod_that_never_restarts_is_not_resized(cluster: ClusterBuilder, fine: bool) -> None:
    cluster.container(resizePolicy=RESTARTS)
    assert found(cluster) == (set() if fine else {("pod-lifecycle-invalid", AT_POLICY)})


def test_a_group_that_ray_resizes_has_findings_for_ray_and_for_its_sidecar() -> None:
    cluster = a_resized_cluster().container(resizePolicy=RESTARTS).sidecar(resizePolicy=RESTARTS)
    sidecar = AT_POLICY.replace("containers[0]", "containers[1]")
    assert found(cluster) == {
        ("ippr-group-not-resizable", AT_POLICY),
        ("pod-lifecycle-invalid", AT_POLICY),
        ("pod-lifecycle-invalid", sidecar),
    }


@pytest.mark.parametrize(("text", "said"), [
    ("{}", "no group is resized"), ('{"groups": {}}', "no group is resized"),
    ('{"group": {"workers": {}}}', "Ray ignores 'group': write groups"),
    ('{"Groups": {}}', "Ray ignores 'Groups': write groups"),
    ('{"Groups": {}, "group": {}}', "Ray ignores 'Groups': write groups"),
    ('{"other": 1}', "no group is resized"), ('{"a": 1, "group": 1}', "Ray ignores 'a': remove"),
])  # fmt: skip
def test_an_annotation_that_names_no_group_has_no_effect(text: str, said: str) -> None:
    first, *_ = findings(_annotated(text), "ippr-without-effect")
    assert first.message.startswith(said)


@pytest.mark.parametrize("key", ["max-cpus", "x"])
def test_unknown_keys_beside_the_right_ones_have_no_effect(key: str) -> None:
    (finding,) = findings(a_resized_cluster(**{key: 4}))
    assert finding.rule == "ippr-without-effect"
    assert finding.message == f"group \"workers\": Ray ignores '{key}': remove it"


@pytest.mark.parametrize(("settings", "works"), [
    (RuleSettings(kuberay=(1, 4)), False), (RuleSettings(kuberay=(1, 5)), True),
    (RuleSettings(kubernetes=(1, 32)), False), (RuleSettings(kubernetes=(1, 33)), True),
])  # fmt: skip
def test_resize_needs_kuberay_1_5_and_kubernetes_1_33(settings: RuleSettings, works: bool) -> None:
    assert ("ippr-without-effect" in rules(a_resized_cluster(), settings)) is not works
