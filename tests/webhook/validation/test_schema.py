"""Files are checked against KubeRay's CRD, and numbers against its Go types in any object."""

import copy
from typing import Any

import pytest

from tests.harness.ray_objects import (
    Built,
    Json,
    a_cluster,
    a_cron_job,
    a_job,
    a_service,
    undecodable,
    with_amount,
)
from webhook.validation.finding import DENY, WARN
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.ruleset import check, check_file, check_update
from webhook.validation.schema import prune_object

CONTAINER = "spec.workerGroupSpecs[0].template.spec.containers[0]"


def denied(value: Json) -> set[str]:
    found = check_file(value["kind"], value)
    return {each.path for each in found if each.rule == "schema-violated" and each.level == DENY}


def with_container(**fields: Any) -> Json:  # noqa: ANN401 - fields of a container
    return a_cluster().group().container(**fields).build()


@pytest.mark.parametrize(("fields", "path"), [
    ({"resources": {"limits": {"cpu": 0.5}}}, "resources.limits[cpu]"),
    ({"resources": {"limits": {"cpu": "half"}}}, "resources.limits[cpu]"),
    ({"env": [{"value": "x"}]}, "env[0].name"),
    ({"env": [{"name": "a"}, {"name": "a"}]}, "env[1]"),
    ({"ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]}, "ports[1]"),
    ({"readinessProbe": {"httpGet": {"path": "/"}}}, "readinessProbe.httpGet.port"),
    ({"tty": "yes"}, "tty"), ({"command": "ray"}, "command"),
])  # fmt: skip
def test_a_container_that_the_crd_refuses(fields: Json, path: str) -> None:
    assert denied(with_container(**fields)) == {f"{CONTAINER}.{path}"}


@pytest.mark.parametrize("fields", [
    {"resources": {"limits": {"cpu": "500m", "memory": 10**9, "nvidia.com/gpu": None}}},
    {"env": [{"name": "a"}, {"name": "b", "value": None}]},
    {"ports": [{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}]},
    {"readinessProbe": {"httpGet": {"port": "http"}}},
    {"ports": [{"containerPort": 1.0}]},
])  # fmt: skip
def test_a_container_that_the_crd_takes(fields: Json) -> None:
    assert denied(with_container(**fields)) == set()


@pytest.mark.parametrize(("built", "path"), [
    (a_cluster().spec(managedBy="me"), "spec.managedBy"),
    (a_cluster().spec(headGroupSpec=None), "spec.headGroupSpec"),
    (a_cluster().meta(name=None), "metadata.name"),
    (a_cluster().meta(labels={"a b": "c"}), "metadata.labels[a b]"),
    (a_cluster().meta(labels={"a": "c" * 64}), "metadata.labels[a]"),
    (a_job().spec(preRunningDeadlineSeconds="x"), "spec.preRunningDeadlineSeconds"),
    (a_cron_job().spec(timeZone=""), "spec.timeZone"),
    (a_cluster().spec(rayVersion=2.46), "spec.rayVersion"),
    (a_cluster().spec(workerGroupSpecs={"groupName": "a"}), "spec.workerGroupSpecs"),
    (a_cluster().spec(workerGroupSpecs=["a"]), "spec.workerGroupSpecs[0]"),
    (a_cluster().spec(autoscalerOptions=[]), "spec.autoscalerOptions"),
    (a_cluster().annotated("a", 1), "metadata.annotations[a]"),
    (a_cluster().meta(annotations=["a"]), "metadata.annotations"),
    (a_cluster().label("a", 1), "metadata.labels[a]"),
    (a_cluster().group(numOfHosts="4").tpu("2x4", 4), "spec.workerGroupSpecs[0].numOfHosts"),
])  # fmt: skip
def test_an_object_that_the_api_server_refuses(built: Built, path: str) -> None:
    assert path in denied(built.build())


def test_a_misspelt_field_of_metadata_is_unknown_as_one_of_a_template_is() -> None:
    value = a_cluster().group().build()
    meta = {"anotations": {"a": "b"}, "lables": {"a": "b"}, "namspace": "t"}
    value["metadata"] |= {**meta, "ownerReferences": [], "managedFields": []}
    value["spec"]["workerGroupSpecs"][0]["template"]["metadata"] = meta
    found = [each for each in check_file("RayCluster", value) if each.rule == "field-unknown"]
    template = "spec.workerGroupSpecs[0].template.metadata"
    assert sorted(each.path for each in found) == sorted(
        f"{path}.{key}" for key in meta for path in ("metadata", template)
    )
    for each in found:
        meant = ("annotations", "labels", "namespace")
        assert any(f"did you mean {right}?" in each.message for right in meant)


def test_fields_that_the_version_does_not_have_are_pruned_before_the_rules_look() -> None:
    built = a_cluster().spec(upgradeStrategy={"type": "RollingUpdate"}).build()
    assert any(each.level == DENY for each in check_file("RayCluster", built))
    built["apiVersion"] = "ray.io/v1alpha1"
    assert {(each.rule, each.path) for each in check_file("RayCluster", built)} == {
        ("field-unknown", "spec.upgradeStrategy")
    }
    cluster = a_cluster().group(hosts=2).tpu("2x4", 4).build()
    assert check_file("RayCluster", cluster) == []
    (finding,) = check_file("RayCluster", cluster | {"apiVersion": "ray.io/v1alpha1"})
    assert (finding.level, finding.field.token) == (DENY, "numOfHosts")
    assert finding.message == "no such field: ray.io/v1 has it: write that apiVersion"


def test_fields_below_others_that_the_version_does_not_have_are_pruned_too() -> None:
    built = a_cluster().group().build()
    kept = copy.deepcopy(built)
    group = built["spec"]["workerGroupSpecs"][0]
    group["unheardOf"] = {"a": 1}
    group["template"]["spec"]["containers"][0]["unheardOf"] = True
    group["template"]["spec"]["nodeSelector"] = {"unheard-of": "b", "none": None}
    kept["spec"]["workerGroupSpecs"][0]["template"]["spec"]["nodeSelector"] = {"unheard-of": "b"}
    assert prune_object("RayCluster", built, None) == kept


def test_a_status_in_a_file_counts_for_nothing() -> None:
    built = a_job().build()
    built["status"] = {"jobDeploymentStatus": "Waiting"}
    assert check_file("RayJob", built) == []


@pytest.mark.parametrize(("version", "kuberay", "message"), [
    ("v1", (1, 5), "KubeRay 1.5 has no RayCronJob: use 1.6 or later"),
    ("v1alpha1", (1, 5), "KubeRay 1.5 has no RayCronJob: use 1.6 or later"),
    ("v1alpha1", (1, 6), "KubeRay has no RayCronJob in ray.io/v1alpha1: write ray.io/v1"),
])  # fmt: skip
def test_a_kind_has_its_first_release(version: str, kuberay: tuple[int, int], message: str) -> None:
    value = {"apiVersion": f"ray.io/{version}", "kind": "RayCronJob", "metadata": {"name": "a"}}
    listed = check_file("RayCronJob", value, RuleSettings(kuberay=kuberay))
    refused = [(finding.level, finding.path, finding.message) for finding in listed]
    assert (DENY, "apiVersion", message) in refused


@pytest.mark.parametrize("garbage", [1, [], {"spec": 1}, {"metadata": 1, "spec": [None]}])
def test_garbage_is_refused_without_an_exception(garbage: Any) -> None:  # noqa: ANN401 - garbage
    value = {"apiVersion": "ray.io/v1", **garbage} if isinstance(garbage, dict) else garbage
    assert isinstance(check_file("RayCluster", value), list)


@pytest.mark.parametrize(("meta", "path"), [
    ({"name": "demo", "generateName": "Upper"}, "metadata.generateName"),
    ({"generateName": "Upper-"}, "metadata.generateName"),
    ({"name": "demo", "generateName": "-"}, "metadata.generateName"),
    ({"name": "demo", "generateName": "right-"}, ""),
    ({"generateName": "right-"}, ""),
])  # fmt: skip
def test_the_beginning_of_a_name_is_checked_beside_a_name_too(meta: Json, path: str) -> None:
    value = a_cluster().group().build()
    value["metadata"] = meta
    found = check_file(value["kind"], value)
    assert {each.path for each in found if each.level == DENY} == ({path} if path else set())


@pytest.mark.parametrize(("name", "level"), [
    ("maxReplica", DENY), ("max_replicas", DENY), ("MaxReplicas", DENY), ("maxRelpicas", DENY),
    ("labelRefs", WARN), ("podTemplate", WARN), ("x", WARN),
])  # fmt: skip
def test_an_unknown_field_is_denied_if_it_is_misspelt(name: str, level: str) -> None:
    value = a_cluster().group().build()
    value["spec"]["workerGroupSpecs"][0][name] = 4
    (finding,) = check_file("RayCluster", value)
    assert (finding.rule, finding.level, finding.field.token) == ("field-unknown", level, name)


def test_a_field_of_a_newer_release_is_a_warning() -> None:
    value = a_cluster().group(priority=4).spec(labels={}).build()
    settings = RuleSettings(kuberay=(1, 4))
    found = [each for each in check_file("RayCluster", value, settings) if each.level == DENY]
    assert found == []


@pytest.mark.parametrize("hosts", [
    {"numOfHosts": "2"}, {"numOfHosts": 2.5}, {"numOfHosts": True}, {"numOfHosts": "x"},
    {"numOfHosts": []}, {"numOfHost": 2}, {"NumOfHosts": 2}, {"num_of_hosts": 4},
])  # fmt: skip
def test_rules_say_nothing_about_a_field_whose_value_is_reported(hosts: Json) -> None:
    value = a_cluster().group().tpu("4x4", 4).build()
    (group,) = value["spec"]["workerGroupSpecs"]
    group.pop("numOfHosts", None)
    group.update(hosts)
    (finding,) = check_file("RayCluster", value)
    assert finding.rule in ("schema-violated", "field-unknown")
    assert finding.field.tokens == ("spec", "workerGroupSpecs", 0, *hosts)


@pytest.mark.parametrize(("spec", "path"), [
    ({"workerGroupSpecs": []}, "spec.headGroupSpec"), ([], "spec"),
    ({"headGroupSpec": {"template": "x"}}, "spec.headGroupSpec.template"),
])  # fmt: skip
def test_rules_say_nothing_about_a_part_of_a_reported_field(spec: object, path: str) -> None:
    value = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "a"}}
    found = check_file("RayCluster", {**value, "spec": spec})
    assert [(each.rule, each.path) for each in found] == [("schema-violated", path)]


def test_rules_about_other_fields_are_applied_beside_a_value_that_is_reported() -> None:
    value = a_cluster().group(numOfHosts="2").group("b", hosts=2).tpu("4x4", 4).build()
    value["spec"]["rayVersion"] = "nightly"
    found = {(each.rule, each.path) for each in check_file("RayCluster", value)}
    assert found == {
        ("schema-violated", "spec.workerGroupSpecs[0].numOfHosts"),
        ("tpu-topology-mismatch", "spec.workerGroupSpecs[1].numOfHosts"),
        ("ray-version-unreadable", "spec.rayVersion"),
    }


PLACES = {
    "nodeSelector": "template.spec", "containers": "template.spec",
    "annotations": "template.metadata", "priorityClassName": "template.spec",
    "env": "template.spec.containers", "enableInTreeAutoscaling": "spec",
}  # fmt: skip


@pytest.mark.parametrize(("value", "text"), [
    (a_cluster().spec(suspend="true").build(), '"true" is a string: remove the quotes'),
    (a_cluster().spec(suspend="off").build(), '"off" is a string: remove the quotes'),
    (a_cluster().spec(suspend="x").build(), "'x': write true or false"),
    (a_cluster().spec(rayVersion=2.10).build(),
     "2.1 is not a string: quote the value, which YAML reads as a number"),
    (a_cluster().spec(rayVersion=2).build(), '2 is not a string: quote it, as in "2"'),
    *((a_cluster().group("g", hosts=1, **{field: "x"}).build(),
       f"no such field: write it in {place}")
      for field, place in PLACES.items()),
    (with_container(resources={"nvidia.com/gpu": 1}),
     "no such field: write it in limits or requests"),
    (with_container(nodeSelector={"a": "b"}), "no such field: write it in template.spec"),
    (a_service().spec(serveConfigV2={"applications": []}).build(),
     "a map: write '|' after the colon, which makes it text"),
    (a_cluster().spec(enableInTreeAutoscalling=True).build(),
     "no such field: did you mean enableInTreeAutoscaling?"),
    (a_cluster().group().pod(imagePullSecrets=["regcred"]).build(),
     "'regcred': write a map, as in name: regcred"),
])  # fmt: skip
def test_a_finding_says_what_to_write(value: Json, text: str) -> None:
    assert [finding.message for finding in check_file(value["kind"], value)] == [text]


def test_a_field_of_a_later_release_is_not_to_be_searched_elsewhere() -> None:
    value = a_cluster().spec(autoscalerOptions={"version": "v2"}, enableInTreeAutoscaling=True)
    (finding,) = check_file("RayCluster", value.build(), RuleSettings(kuberay=(1, 3)))
    text = "no such field: a later KubeRay has it"
    assert (finding.rule, finding.message) == ("field-unknown", text)


def test_a_pasted_part_with_its_own_spec_is_to_be_unpacked() -> None:
    job = a_job().build()
    job["spec"]["rayClusterSpec"] = {"spec": job["spec"]["rayClusterSpec"]}
    messages = {each.path: each.message for each in check_file("RayJob", job)}
    hint = "no such field: move its fields one level up"
    assert messages["spec.rayClusterSpec.spec"] == hint


HUGE = 3_000_000_000
RULE = "value-not-decodable"


def with_port(port: object) -> Json:
    probe = {"httpGet": {"path": "/", "port": port}}
    return with_container(readinessProbe=probe)


def undecodable_paths(value: Json) -> list[str]:
    return [each.path for each in check(value["kind"], value) if each.rule == RULE]


@pytest.mark.parametrize(("port", "fine"), [
    *((port, False) for port in (HUGE, -HUGE, 2**31, float(HUGE), 1e22)),
    *((port, True) for port in (8080, 0, -1, 2**31 - 1, -(2**31), "http", "3000000000", None)),
])  # fmt: skip
def test_a_port_has_32_bits(port: object, fine: bool) -> None:
    path = "spec.workerGroupSpecs[0].template.spec.containers[0].readinessProbe.httpGet.port"
    assert undecodable_paths(with_port(port)) == ([] if fine else [path])


@pytest.mark.parametrize("bits", [32, 64])
def test_integers_have_the_range_of_their_type(bits: int) -> None:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    for number, wrong in ((low - 1, True), (low, False), (high, False), (high + 1, True)):
        field = "priority" if bits == 32 else "terminationGracePeriodSeconds"
        cluster = a_cluster().group().pod(**{field: number})
        assert undecodable("RayCluster", cluster.build()) is wrong


@pytest.mark.parametrize(("value", "path"), [
    (a_job().spec(backoffLimit=HUGE).build(), "spec.backoffLimit"),
    (a_service().spec(serveService={"spec": {"ports": [{"port": 1, "targetPort": HUGE}]}}).build(),
     "spec.serveService.spec.ports[0].targetPort"),
    (a_cron_job().spec(jobTemplate={"backoffLimit": HUGE}).build(),
     "spec.jobTemplate.backoffLimit"),
    (a_cluster().spec(
        headGroupSpec={"headService": {"spec": {"ports": [{"nodePort": HUGE}]}}}).build(),
     "spec.headGroupSpec.headService.spec.ports[0].nodePort"),
])  # fmt: skip
def test_numbers_of_every_kind_are_known(value: Json, path: str) -> None:
    assert undecodable_paths(value) == [path]


@pytest.mark.parametrize(("amount", "wrong"), [
    ("1e1.5", True), ("1E-.5", True), ("1e3", False), ("1E", False), ("2Ei", False),
    ("500m", False), ("1e-999999999", True), ("1e50000000", True), ("1E+100", True),
    ("1e99", False), ("1e-99", False), ("1e0000000000000000003", False),
    (10**12, False), (1.5, False), ("five", False), ("1Gie", False), ("e", False),
])  # fmt: skip
def test_a_quantity_has_a_whole_exponent_of_at_most_two_digits(amount: object, wrong: bool) -> None:
    assert undecodable("RayCluster", with_amount(amount)) is wrong


def test_an_update_that_only_scales_is_refused_when_the_number_is_too_large() -> None:
    old, new = a_cluster().group(replicas=1).build(), a_cluster().group(replicas=HUGE).build()
    (finding,) = check_update("RayCluster", old, new)
    assert (finding.rule, finding.level) == (RULE, DENY)
    assert check_update("RayCluster", new, new)[0].level == WARN
    assert check_update("RayCluster", new, old) == []


def test_an_object_that_is_being_deleted_cannot_become_undecodable() -> None:
    old, new, bare = with_port(1), with_port(HUGE), with_port(HUGE)
    for each in (old, new, bare):
        each["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    bare["metadata"]["annotations"] = {"a": "b"}
    assert [each.rule for each in check_update("RayCluster", old, new)] == [RULE]
    assert [each.level for each in check_update("RayCluster", new, bare)] == [WARN]


def test_a_finalizer_may_go_from_an_undecodable_object_that_is_being_deleted() -> None:
    old, new = with_port(HUGE), with_port(HUGE)
    for each, finalizers in ((old, ["a/b"]), (new, [])):
        each["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}
    assert check_update("RayCluster", old, new) == []
    new["metadata"]["labels"] = {"also": "changed"}
    assert [each.level for each in check_update("RayCluster", old, new)] == [WARN]


def test_garbage_is_no_number() -> None:
    assert not undecodable("RayJob", [1, {"spec": [3]}])
    assert not undecodable("RayJob", {"spec": {"backoffLimit": {"a": HUGE}}})


@pytest.mark.parametrize("hosts", [HUGE, -HUGE])
def test_a_field_with_another_denial_has_no_second_one(hosts: int) -> None:
    value = a_cluster().group(hosts=hosts).build()
    rules = {each.rule for each in check("RayCluster", value)}
    assert "num-of-hosts-invalid" in rules
    assert RULE not in rules


def test_a_value_that_was_wrong_before_and_cannot_be_decoded_now_is_refused() -> None:
    old, new = (a_cluster().group(hosts=hosts).build() for hosts in (0, HUGE))
    assert (RULE, DENY) in {
        (each.rule, each.level) for each in check_update("RayCluster", old, new)
    }
