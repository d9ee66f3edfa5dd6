"""The JSON document: its content and its JSON Schema."""

import re
from typing import Any

import jsonschema
import pytest
from msgspec import structs

from tests.harness.scenes import NOW, Scene
from tests.webhook.diagnostics.samples import samples
from webhook.diagnostics.document import document, schema

SAMPLES = samples()
VALIDATOR = jsonschema.Draft202012Validator(
    schema(), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
)


def conditions(scene: Scene) -> dict[str, Any]:
    (cluster,) = document(scene.examined())["clusters"]
    return {each["type"]: each for each in cluster["conditions"]}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_document_of_every_example_has_the_schema(name: str) -> None:
    VALIDATOR.validate(document(SAMPLES[name].scene().examined()))


def test_the_schema_refuses_another_kind_and_times_in_seconds() -> None:
    found = document(Scene().examined())
    assert VALIDATOR.is_valid(found)
    assert not VALIDATOR.is_valid(found | {"kind": "Status"})
    assert not VALIDATOR.is_valid(found | {"now": NOW})


def test_it_has_a_version_and_times_as_the_kubernetes_api_writes_them() -> None:
    found = document(SAMPLES["host-restarted"].scene().examined())
    assert (found["apiVersion"], found["kind"]) == ("admission.ray.io/v1alpha1", "RayStatus")
    assert found["now"] == "2024-11-21T12:00:00Z"
    (cluster,) = found["clusters"]
    assert cluster["head"]["since"] == "2024-11-21T11:00:00Z"
    assert cluster["problems"][0]["since"] == "2024-11-21T11:40:00Z"
    assert not re.search(r"'(since|now)': [0-9]", str(found))


def test_a_raycluster_in_which_all_is_well_is_ready_and_not_degraded() -> None:
    found = conditions(Scene())
    assert {name: each["status"] for name, each in found.items()} == {
        "Ready": "True",
        "Degraded": "False",
    }
    assert found["Ready"]["message"] == "2 of 2 replicas complete"


def test_a_problem_degrades_its_raycluster_with_reason_message_and_time() -> None:
    found = conditions(SAMPLES["host-restarted"].scene())
    assert found["Ready"]["status"] == "False"
    degraded = found["Degraded"]
    assert (degraded["status"], degraded["reason"]) == ("True", "HostRestarted")
    assert degraded["lastTransitionTime"] == "2024-11-21T11:40:00Z"
    assert degraded["message"].startswith("host 3 of replica 0 ")
    first = conditions(SAMPLES["pod-stuck-terminating"].scene())["Degraded"]
    assert first["reason"] == "HostMissing"
    assert first["message"].endswith("host 3 is missing")


def test_a_raycluster_that_is_deleted_is_not_ready_and_one_that_failed_is_unknown() -> None:
    deleted = conditions(SAMPLES["being-deleted"].scene())
    assert deleted["Ready"]["reason"] == "BeingDeleted"
    cluster_report = Scene().examined()
    (cluster,) = cluster_report.clusters
    failed = structs.replace(cluster, groups=(), problems=(), failure="ValueError")
    found = document(structs.replace(cluster_report, clusters=(failed,)))
    VALIDATOR.validate(found)
    assert {each["status"] for each in found["clusters"][0]["conditions"]} == {"Unknown"}


def test_a_time_that_no_calendar_has_is_left_out() -> None:
    cluster_report = Scene().examined()
    (cluster,) = cluster_report.clusters
    late = structs.replace(cluster, head=structs.replace(cluster.head, since=1e18))
    found = document(structs.replace(cluster_report, clusters=(late,)))
    assert "since" not in found["clusters"][0]["head"]
