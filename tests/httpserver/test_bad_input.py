"""Any input over HTTPS receives the answer that the design specifies, and never a 500."""

import json
from typing import Any

import pytest

from tests.apiserver import ApiServer, pod_review
from tests.certs.listener import until
from tests.httpserver.pods import Object, without, worker
from tests.server import Running

NODES = "cloud.google.com/gke-tpu-topology"


def denied(api: ApiServer, pod: Object) -> Object:
    response = api.review(pod_review(pod))
    assert not response["allowed"]
    assert "patch" not in response
    status: Object = response["status"]
    assert (status["code"], status["reason"], status["status"]) == (422, "Invalid", "Failure")
    assert status["details"]["kind"] == "Pod"
    assert "Traceback" not in status["message"]
    return status


def fields(status: Object) -> list[str]:
    return [cause["field"] for cause in status["details"]["causes"]]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not an AdmissionReview in JSON"),
        (b"hello", "not an AdmissionReview in JSON"),
        (b"\xff\xfe\x00", "not an AdmissionReview in JSON"),
        (b'{"kind": "AdmissionReview"', "not an AdmissionReview in JSON"),
        (b"[1, 2]", "not an AdmissionReview in JSON"),
        (b'{"hello": "world"}', "expected apiVersion admission.k8s.io/v1"),
        (b"[" * 200_000, "not an AdmissionReview in JSON"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "has no request"),
        (
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}',
            "has no request",
        ),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}', "uid"),
        (
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":"yes"}',
            "request",
        ),
    ],
)
def test_a_body_that_is_no_review_is_400_and_says_what_was_expected(
    api: ApiServer, body: bytes, says: str
) -> None:
    answer = api.post("/mutate", body)
    assert answer.status_code == 400
    assert says in answer.text
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("version", ["admission.k8s.io/v1beta1", "admission.k8s.io/v2", "v1"])
def test_an_unknown_api_version_is_400(api: ApiServer, version: str) -> None:
    review = pod_review(worker("plain")) | {"apiVersion": version}
    answer = api.post("/mutate", json.dumps(review).encode())
    assert answer.status_code == 400
    assert "expected apiVersion admission.k8s.io/v1" in answer.text
    assert version in answer.text


@pytest.mark.parametrize(
    "change",
    [
        {"resource": {"group": "ray.io", "version": "v1", "resource": "rayclusters"}},
        {"resource": {"group": "", "version": "v1", "resource": "configmaps"}},
        {"kind": {"group": "ray.io", "version": "v1", "kind": "RayCluster"}},
        {"kind": {"group": "apps", "version": "v1", "kind": "Pod"}},
        {"kind": {"group": "", "version": "v2", "kind": "Pod"}},
    ],
)
def test_kind_and_resource_that_disagree_are_400(api: ApiServer, change: Object) -> None:
    review = pod_review(worker("plain"))
    review["request"] |= change
    answer = api.post("/mutate", json.dumps(review).encode())
    assert answer.status_code == 400
    assert "disagree" in answer.text


def test_a_create_without_its_object_is_400(api: ApiServer) -> None:
    review = pod_review(worker("plain"))
    review["request"]["object"] = None
    answer = api.post("/mutate", json.dumps(review).encode())
    assert answer.status_code == 400
    assert "request.object is missing" in answer.text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "containers"), "none"),
        (("spec",), []),
        (("metadata", "labels"), ["ray.io/cluster"]),
        (("metadata", "ownerReferences"), {"uid": 1}),
    ],
)
def test_a_pod_of_impossible_shape_is_400_with_the_place(
    api: ApiServer, path: tuple[str, ...], value: object
) -> None:
    pod: Any = worker("plain")
    target = pod
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    answer = api.post("/mutate", json.dumps(pod_review(pod)).encode())
    assert answer.status_code == 400
    assert "malformed" in answer.text
    assert path[-1] in answer.text


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
def test_eight_mebibytes_are_413_and_the_connection_lives_on(api: ApiServer, chunked: bool) -> None:  # noqa: FBT001
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


def test_a_pod_without_containers_is_denied(api: ApiServer) -> None:
    pod = worker("plain")
    pod["spec"]["containers"] = []
    assert fields(denied(api, pod)) == ["spec.containers"]


def test_a_pod_without_cluster_label_group_label_and_owner_is_denied_with_all_reasons(
    api: ApiServer,
) -> None:
    pod = without(without(worker("plain"), "ray.io/cluster"), "ray.io/group")
    pod["metadata"]["ownerReferences"] = []
    status = denied(api, pod)
    assert fields(status) == [
        "metadata.labels[ray.io/cluster]",
        "metadata.labels[ray.io/group]",
        "metadata.ownerReferences",
    ]
    assert status["message"].startswith("3 problems:\n- metadata.labels[ray.io/cluster]: ")


def test_a_group_that_the_cluster_does_not_have_is_denied_with_those_it_has(api: ApiServer) -> None:
    status = denied(api, worker("plane"))
    assert fields(status) == ["metadata.labels[ray.io/group]"]
    assert "'plane'" in status["message"]
    assert "plain" in status["message"]


@pytest.mark.parametrize("cluster", ["nobody", "tpu-v4"])
def test_an_unknown_cluster_or_one_recreated_under_its_name_is_denied(
    api: ApiServer, cluster: str
) -> None:
    status = denied(api, worker("tpu-group", cluster))
    assert fields(status) == ["metadata.labels[ray.io/cluster]"]
    assert status["details"]["causes"][0]["reason"] == "FieldValueNotFound"


@pytest.mark.parametrize(
    ("group", "labels", "missing"),
    [
        ("hosts-4", {"index": "0"}, ["name", "host"]),
        ("hosts-4", {"index": "0", "name": "hosts-4-abcde"}, ["host"]),
        ("hosts-4", {"host": "0"}, ["index", "name"]),
        ("plain", {"name": "plain-abcde"}, ["index", "host"]),
        ("plain", {"index": "0", "host": "0"}, ["name"]),
    ],
)
def test_a_part_of_the_seat_labels_is_denied_and_the_missing_ones_are_named(
    api: ApiServer, group: str, labels: dict[str, str], missing: list[str]
) -> None:
    wanted = {
        "index": "worker-group-replica-index",
        "name": "worker-group-replica-name",
        "host": "replica-host-index",
    }
    assert fields(denied(api, worker(group, **labels))) == [
        f"metadata.labels[ray.io/{wanted[name]}]" for name in missing
    ]


@pytest.mark.parametrize(
    "index", ["", "one", "-1", "+1", "1.0", " 1", "01", "1e3", "٣", "99999999999", "1048576"]
)
def test_an_index_that_is_none_is_denied(api: ApiServer, index: str) -> None:
    status = denied(api, worker("hosts-4", index=index, name="hosts-4-abcde", host="0"))
    assert fields(status) == ["metadata.labels[ray.io/worker-group-replica-index]"]


@pytest.mark.parametrize("host", ["4", "5", "-1", "x"])
def test_a_host_out_of_range_is_denied(api: ApiServer, host: str) -> None:
    status = denied(api, worker("hosts-4", index="0", name="hosts-4-abcde", host=host))
    assert fields(status) == ["metadata.labels[ray.io/replica-host-index]"]
    assert "0 to 3" in status["message"]


@pytest.mark.parametrize(
    "group",
    [
        "with.dots",
        "under_score",
        "a-group-name-of-exactly-fifty-eight-characters-which-is-too-lo",
        "no-hosts",
        "huge",
    ],
)
def test_a_multi_host_group_whose_name_or_size_cannot_work_is_denied_at_host_0(
    api: ApiServer, group: str
) -> None:
    assert fields(denied(api, worker(group))) == ["metadata.labels[ray.io/group]"]


def test_a_group_name_in_upper_case_gives_host_names_in_lower_case(api: ApiServer) -> None:
    pod, _ = api.admit(worker("UPPER"), dry_run=True)
    assert pod["spec"]["hostname"] == "upper-0-0"
    assert pod["metadata"]["labels"]["ray.io/worker-group-replica-name"].startswith("UPPER-")


def test_a_group_label_of_64_characters_is_denied_as_no_label_value(api: ApiServer) -> None:
    status = denied(api, worker("g" * 64))
    assert fields(status) == ["metadata.labels[ray.io/group]"]
    assert "64 characters" in status["message"]


def test_a_topology_that_does_not_fit_is_denied_with_both_numbers(api: ApiServer) -> None:
    pod = worker("hosts-4")
    pod["spec"]["nodeSelector"] = {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice",
        NODES: "2x2x2",
    }
    pod["spec"]["containers"][0]["resources"] = {"limits": {"google.com/tpu": "4"}}
    status = denied(api, pod)
    assert fields(status) == [f"spec.nodeSelector[{NODES}]"]
    assert "2 hosts" in status["message"]
    assert "numOfHosts is 4" in status["message"]


@pytest.mark.parametrize("topology", ["2x", "0x4", "2x-2", "x", "2x2x2x2", "4", "2X2", "²x2"])
def test_a_topology_that_cannot_be_read_is_denied(api: ApiServer, topology: str) -> None:
    pod = worker("hosts-4")
    pod["spec"]["nodeSelector"] = {NODES: topology}
    pod["spec"]["containers"][0]["resources"] = {"limits": {"google.com/tpu": 4}}
    assert fields(denied(api, pod)) == [f"spec.nodeSelector[{NODES}]"]


@pytest.mark.parametrize("amount", ["four", "-4", "1.5", "1e99999999", "4Q"])
def test_devices_that_cannot_be_counted_are_denied_with_the_container(
    api: ApiServer, amount: str
) -> None:
    pod = worker("hosts-4")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"google.com/tpu": amount}}
    assert fields(denied(api, pod)) == ["spec.containers[0].resources[google.com/tpu]"]


def test_variables_from_elsewhere_count_as_set(api: ApiServer) -> None:
    pod = worker("hosts-4")
    source = {"fieldRef": {"fieldPath": "metadata.labels['x']"}}
    pod["spec"]["containers"][0] |= {
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
        "env": [{"name": "NODE_RANK", "valueFrom": source}],
    }
    mutated, _ = api.admit(pod, dry_run=True)
    env = mutated["spec"]["containers"][0]["env"]
    assert [variable for variable in env if variable["name"] == "NODE_RANK"] == [
        {"name": "NODE_RANK", "valueFrom": source}
    ]


def test_two_containers_of_one_name_are_both_completed(api: ApiServer) -> None:
    pod = worker("hosts-4")
    pod["spec"]["containers"] = [
        {"name": "twin", "resources": {"limits": {"nvidia.com/gpu": "4"}}},
        {"name": "twin"},
    ]
    mutated, _ = api.admit(pod, dry_run=True)
    for container in mutated["spec"]["containers"]:
        assert {variable["name"] for variable in container["env"]} == {
            "NNODES",
            "NODE_RANK",
            "MASTER_ADDR",
            "MASTER_PORT",
        }


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE", "CONNECT", "SOMETHING"])
def test_other_operations_pass_without_a_patch(api: ApiServer, operation: str) -> None:
    review = pod_review(worker("hosts-4"), operation=operation)
    if operation == "DELETE":
        review["request"] |= {"object": None, "oldObject": worker("hosts-4", index="x")}
    response = api.review(review)
    assert response["allowed"]
    assert "patch" not in response


def test_a_connect_to_a_subresource_passes(api: ApiServer) -> None:
    review = pod_review(
        {"apiVersion": "v1", "kind": "PodExecOptions", "metadata": {}, "command": "sh"},
        operation="CONNECT",
    )
    review["request"] |= {
        "kind": {"group": "", "version": "v1", "kind": "PodExecOptions"},
        "subResource": "exec",
    }
    assert api.review(review)["allowed"]


def test_kinds_that_are_none_of_ours_pass(api: ApiServer) -> None:
    review = pod_review(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"labels": "whatever"},
            "spec": {"containers": 7},
        }
    )
    review["request"] |= {
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
    }
    assert api.review(review)["allowed"]


def test_pods_that_are_no_workers_pass_untouched(api: ApiServer) -> None:
    head = worker("headgroup")
    head["metadata"]["labels"]["ray.io/node-type"] = "head"
    plain = without(worker("plain"), "ray.io/node-type")
    for pod in (head, plain, {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}}):
        response = api.review(pod_review(pod))
        assert response["allowed"]
        assert "patch" not in response


def test_a_cluster_that_asks_to_be_left_alone_is(api: ApiServer) -> None:
    response = api.review(pod_review(worker("hosts-4", "ignored")))
    assert response["allowed"]
    assert "patch" not in response


def test_a_denied_pod_takes_no_seat(api: ApiServer) -> None:
    first, _ = api.admit(worker("plain"), dry_run=True)
    denied(api, worker("plain", name="plain-abcde"))
    second, _ = api.admit(worker("plain"), dry_run=True)
    assert first["metadata"]["labels"] == second["metadata"]["labels"]


def test_the_journal_holds_no_values_of_variables(server: Running, api: ApiServer) -> None:
    pod = worker("hosts-4")
    pod["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "a-secret-of-the-user"}]
    api.admit(pod, dry_run=True)
    until(lambda: '"dry_run"' in server.log.read_text(), 20)
    assert "a-secret-of-the-user" not in server.log.read_text()
