"""Any input over HTTPS, written or fuzzed, receives the answer of the design, and never a 500."""

import asyncio
import copy
import json
import random
import uuid
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.builders import Object
from tests.harness.apiserver import ApiServer, pod_review
from tests.harness.listener import until
from tests.harness.objects import worker
from tests.harness.server import Running
from tests.lab.hostile.bodies import MUTATE, Body, Service, applied, bodies, changed, reviews, state

NODES = "cloud.google.com/gke-tpu-topology"
CLUSTER, GROUP = "metadata.labels[ray.io/cluster]", "metadata.labels[ray.io/group]"
INDEX = "metadata.labels[ray.io/worker-group-replica-index]"
NAME = "metadata.labels[ray.io/worker-group-replica-name]"
HOST = "metadata.labels[ray.io/replica-host-index]"


def a_stray() -> Object:
    pod = worker("plain")
    del pod["metadata"]["labels"]["ray.io/cluster"], pod["metadata"]["labels"]["ray.io/group"]
    pod["metadata"]["ownerReferences"] = []
    return pod


def a_tpu_host(topology: str, chips: object) -> Object:
    pod = worker("hosts-4")
    pod["spec"]["nodeSelector"] = {NODES: topology}
    pod["spec"]["containers"][0]["resources"] = {"limits": {"google.com/tpu": chips}}
    return pod


@pytest.mark.parametrize(("body", "says"), [
    (b"", "not an AdmissionReview in JSON"), (b"\xff\xfe\x00", "not an AdmissionReview in JSON"),
    (b'{"kind": "AdmissionReview"', "not an AdmissionReview in JSON"),
    (b"[1, 2]", "not an AdmissionReview in JSON"),
    (b'{"hello": "world"}', "expected apiVersion admission.k8s.io/v1"),
    (b"[" * 200_000, "not an AdmissionReview in JSON"),
    (b'{"a":' * 200_000, "nested too deeply"),
    (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "has no request"),
    (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}',
     "has no request"),
    (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}', "uid"),
    (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":"yes"}', "request"),
])  # fmt: skip
def test_a_body_that_is_no_review_is_explained(api: ApiServer, body: bytes, says: str) -> None:
    answer = api.post("/mutate", body)
    assert answer.status_code == 400
    assert says in answer.text
    assert answer.headers["content-type"].startswith("text/plain")


def a_review(**changes: object) -> Object:
    review = pod_review(worker("plain"))
    review["request"] |= changes
    return review


def a_pod_with(section: str, value: object) -> Object:
    """Return the review of a pod with another value in its spec, or for all of it."""
    pod: Any = worker("plain")
    parent, _, field = section.rpartition(".")
    (pod[parent] if parent else pod)[field] = value
    return pod_review(pod)


@pytest.mark.parametrize(("review", "says"), [
    *((a_review() | {"apiVersion": version}, ("expected apiVersion admission.k8s.io/v1", version))
      for version in ("admission.k8s.io/v1beta1", "admission.k8s.io/v2", "v1")),
    *((a_review(**{field: gvk}), ("disagree",)) for field, gvk in (
        ("resource", {"group": "ray.io", "version": "v1", "resource": "rayclusters"}),
        ("resource", {"group": "", "version": "v1", "resource": "configmaps"}),
        ("kind", {"group": "ray.io", "version": "v1", "kind": "RayCluster"}),
        ("kind", {"group": "apps", "version": "v1", "kind": "Pod"}),
        ("kind", {"group": "", "version": "v2", "kind": "Pod"}))),
    (a_review(object=None), ("request.object is missing",)),
    (a_pod_with("spec.containers", "none"), ("malformed", "containers")),
    (a_pod_with("spec", []), ("malformed", "spec")),
    (a_pod_with("metadata.labels", ["ray.io/cluster"]), ("malformed", "labels")),
    (a_pod_with("metadata.ownerReferences", {"uid": 1}), ("malformed", "ownerReferences")),
])  # fmt: skip
def test_a_review_that_contradicts_itself_is_400(
    api: ApiServer, review: Object, says: tuple[str, ...]
) -> None:
    answer = api.post("/mutate", json.dumps(review).encode())
    assert answer.status_code == 400
    assert [text for text in says if text not in answer.text] == []


def test_a_refusal_has_at_most_1000_characters(api: ApiServer) -> None:
    review = a_review(kind={"group": "", "version": "v1", "kind": "Pod" * 1000})
    assert len(api.post("/mutate", json.dumps(review).encode()).text) == 1000


@pytest.mark.parametrize("kind", ["text/plain", "application/yaml", "", "application/jsonp"])
def test_another_content_type_is_415(api: ApiServer, kind: str) -> None:
    answer = api.post(
        "/mutate", json.dumps(pod_review(worker("plain"))).encode(), **{"content-type": kind}
    )
    assert answer.status_code == 415
    assert "application/json" in answer.text


def test_a_content_type_with_a_charset_is_fine(api: ApiServer) -> None:
    body = json.dumps(pod_review(worker("plain"), dry_run=True)).encode()
    assert (
        api.post("/mutate", body, **{"content-type": "Application/JSON; charset=utf-8"}).status_code
        == 200
    )


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
def test_another_method_is_405_and_says_which_is_allowed(api: ApiServer, method: str) -> None:
    answer = api.request(method, "/mutate")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


def test_another_path_is_404_and_names_the_right_ones(api: ApiServer) -> None:
    answer = api.post("/mutate/", b"{}")
    assert answer.status_code == 404
    assert "/mutate" in answer.text


@pytest.mark.parametrize("chunked", [False, True])
def test_eight_mebibytes_are_413_and_the_connection_lives_on(api: ApiServer, chunked: bool) -> None:
    size = 8 * 1024 * 1024
    review = pod_review(worker("plain"))
    review["request"]["object"]["metadata"]["annotations"] = {"big": "x" * size}
    body = json.dumps(review).encode()
    answer = (
        api.stream("/mutate", [body[i : i + 65536] for i in range(0, size, 65536)])
        if chunked
        else api.post("/mutate", body)
    )
    assert answer.status_code == 413
    assert "7340032" in answer.text
    assert api.review(pod_review(worker("plain"), dry_run=True))["allowed"]


def test_just_under_the_limit_is_a_review(api: ApiServer) -> None:
    pod = worker("plain")
    pod["metadata"]["annotations"] = {"big": "x" * (7 * 1024 * 1024 - 8000)}
    assert api.review(pod_review(pod, dry_run=True))["allowed"]


@pytest.mark.parametrize(("pod", "fields", "says"), [
    (a_stray(), [CLUSTER, GROUP, "metadata.ownerReferences"], f"3 problems:\n- {CLUSTER}: "),
    (worker("plane"), [GROUP], "no worker group 'plane'; it has "),
    (worker("tpu-group", "nobody"), [CLUSTER], "is not known"),
    (worker("tpu-group", "tpu-v4"), [CLUSTER], "is not known"),
    (worker("hosts-4", index="0"), [NAME, HOST], "only a part of its identity"),
    (worker("hosts-4", index="-1", name="a-b", host="4"), [INDEX, HOST], "0 to 3"),
    (worker("under_score"), [GROUP], "host name"), (worker("huge"), [GROUP], "numOfHosts"),
    (worker("g" * 64), [GROUP], "64 characters"),
    (a_tpu_host("2x2x2", "4"), [f"spec.nodeSelector[{NODES}]"], "4 chips per host has 2: "),
    (a_tpu_host("4", 4), [f"spec.nodeSelector[{NODES}]"], "is not a TPU topology"),
    (a_tpu_host("4x4", "1e9999"), ["spec.containers[0].resources[google.com/tpu]"], "1e9999"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_a_denial_has_all_fields(api: ApiServer, pod: Object, fields: list[str], says: str) -> None:
    response = api.review(pod_review(pod))
    assert not response["allowed"]
    assert "patch" not in response
    status = response["status"]
    assert (status["code"], status["reason"], status["status"]) == (422, "Invalid", "Failure")
    assert status["details"]["kind"] == "Pod"
    assert [cause["field"] for cause in status["details"]["causes"]] == fields
    assert says in status["message"]


def test_two_containers_of_one_name_are_both_completed(api: ApiServer) -> None:
    pod = worker("hosts-4")
    pod["spec"]["containers"] = [
        {"name": "twin", "resources": {"limits": {"nvidia.com/gpu": "4"}}},
        {"name": "twin"},
    ]
    mutated, _ = api.admit(pod, dry_run=True)
    for container in mutated["spec"]["containers"]:
        assert {variable["name"] for variable in container["env"]} == {
            "NNODES", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"}  # fmt: skip


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE", "CONNECT", "SOMETHING"])
def test_other_operations_pass_without_a_patch(api: ApiServer, operation: str) -> None:
    review = pod_review(worker("hosts-4"), operation=operation)
    if operation == "DELETE":
        review["request"] |= {"object": None, "oldObject": worker("hosts-4", index="x")}
    response = api.review(review)
    assert response["allowed"]
    assert "patch" not in response


@pytest.mark.parametrize(("operation", "kind", "request_"), [
    ("CONNECT", "PodExecOptions", {"subResource": "exec"}),
    ("CREATE", "ConfigMap",
     {"resource": {"group": "", "version": "v1", "resource": "configmaps"}}),
])  # fmt: skip
def test_kinds_that_are_none_of_ours_pass(
    api: ApiServer, operation: str, kind: str, request_: Object
) -> None:
    document = {"metadata": {"labels": "whatever"}, "spec": {"containers": 7}, "command": "sh"}
    review = pod_review(document, operation=operation)
    review["request"] |= {"kind": {"group": "", "version": "v1", "kind": kind}, **request_}
    assert api.review(review)["allowed"]


def test_the_journal_holds_no_values_of_variables(server: Running, api: ApiServer) -> None:
    pod = worker("hosts-4")
    pod["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "a-secret-of-the-user"}]
    api.admit(pod, dry_run=True)
    until(lambda: '"dry_run"' in server.log.read_text())
    assert "a-secret-of-the-user" not in server.log.read_text()


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(choose=st.randoms(use_true_random=False))
def test_any_body_gets_a_400_or_a_verdict_whose_patch_applies(choose: random.Random) -> None:
    service, make = Service(state()), bodies(choose)
    for _ in range(3):
        body = make()
        status, answer = asyncio.run(service.ask(body))
        assert status in {200, 400}, (body, service.observer.error)
        if status == httpx.codes.OK and applied(body, answer) is not None:
            event("patched")


PODS = [each for _, each in reviews() if each["request"]["kind"]["kind"] == "Pod"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    choose=st.randoms(use_true_random=False),
    uids=st.lists(st.uuids(), min_size=3, max_size=5, unique=True),
    template=st.sampled_from(PODS),
)
def test_warm_caches_agree(choose: random.Random, uids: list[uuid.UUID], template: Object) -> None:
    warm = Service(state())
    for number, uid in enumerate(uids):
        review = changed(choose, template) if number % 2 else copy.deepcopy(template)
        if not isinstance(review.get("request"), dict):
            continue
        review["request"] |= {"uid": str(uid), "dryRun": True}
        body = Body(MUTATE, json.dumps(review).encode())
        for _ in range(2):
            assert asyncio.run(warm.ask(body)) == asyncio.run(Service(state()).ask(body))
    event(f"{warm.hits} completed from the patch cache")
