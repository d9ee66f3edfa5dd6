"""`ray-webhook diff`: a file compared with live objects."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.harness.running import At, Ended, Write
from tests.harness.scenes import CREATED, Object, Scene, llama, merged

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
PATH = "/apis/ray.io/v1/namespaces/team/{}s/llama"

Diff = Callable[..., Ended]
Found = Callable[..., dict[str, Any]]


def stored(**overlay: object) -> Object:
    """Return the RayCluster as the API server has it: with defaults and a status."""
    document = merged(llama().build(), overlay)
    document["metadata"]["creationTimestamp"] = CREATED
    for each in document["spec"]["workerGroupSpecs"]:
        each |= {"minReplicas": 0, "maxReplicas": 2147483647, "rayStartParams": {}}
    found: Object = document | {"status": {"state": "ready"}}
    return found


def written(**overlay: object) -> Object:
    document: Object = merged(llama().build(), overlay)
    del document["metadata"]["uid"]
    return document


def group(document: Object) -> Object:
    result: Object = document["spec"]["workerGroupSpecs"][0]
    return result


def with_group(document: Object, **fields: object) -> Object:
    group(document).update(fields)
    return document


@pytest.fixture
def diff(at: At, write: Write) -> Diff:
    def call(live: Object | None, new: Object, *arguments: str) -> Ended:
        answers = {PATH.format(new["kind"].lower()): live} if live else {}
        command = partial(at, Scene(), "diff", write(new), *arguments)
        return command(change=lambda server: server.answers.update(answers))

    return call


@pytest.fixture
def found(diff: Diff) -> Found:
    def call(live: Object, new: Object) -> dict[str, Any]:
        ended = diff(live, new, "-o", "json")
        assert ended.status == 1
        (compared,) = json.loads(ended.out)
        result: dict[str, Any] = compared
        return result

    return call


def of_hosts(found: dict[str, Any]) -> set[tuple[str, str, int]]:
    return {(each["group"], each["what"], each["hosts"]) for each in found["hosts"]}


@pytest.mark.parametrize(
    "last", [None, "[]", '{"metadata": 1, "spec": 2}', '{"metadata": {"labels": 1}}']
)
def test_defaults_and_an_odd_last_apply_are_no_difference(diff: Diff, last: str | None) -> None:
    live = stored()
    if last is not None:
        live["metadata"]["annotations"] = {APPLIED: last}
    assert diff(live, written()) == (0, "RayCluster team/llama: the same\n", "")


def test_a_changed_field_has_both_values_and_new_hosts_count(diff: Diff, found: Found) -> None:
    new = with_group(written(), replicas=3)
    assert "  ~ spec.workerGroupSpecs[tpu].replicas: 2 -> 3\n" in diff(stored(), new).out
    assert of_hosts(found(stored(), new)) == {("tpu", "created hosts", 4)}


def test_a_suspended_raycluster_loses_all_its_hosts(diff: Diff) -> None:
    out = diff(stored(), written(spec={"suspend": True})).out
    assert "  * headgroup: deleted hosts, 1 host, first the head: exists -> deleted\n" in out
    assert "  * tpu: deleted hosts, 8 hosts, first replica 0, host 0: exists -> deleted\n" in out
    out = diff(stored(spec={"suspend": True}), written(spec={"suspend": False})).out
    assert "  * tpu: created hosts, 8 hosts" in out


def test_another_number_of_hosts_changes_the_values_of_the_others(found: Found) -> None:
    new = with_group(written(), numOfHosts=2)
    result = found(stored(), new)
    assert of_hosts(result) == {("tpu", "deleted hosts", 4), ("tpu", "TPU_WORKER_HOSTNAMES", 4)}
    rules = {each["rule"] for each in result["found"]}
    assert {"tpu-topology-mismatch", "num-of-hosts-changed"} <= rules
    live = stored()
    live["metadata"]["annotations"] = {APPLIED: json.dumps(written())}
    assert found(live, new) == result, "an object of `kubectl apply` keeps its name"
    (peers,) = (each for each in result["hosts"] if each["what"] == "TPU_WORKER_HOSTNAMES")
    assert ".llama-headless" in peers["old"]
    assert ".llama-headless" in peers["new"]


def owner_of(kind: str, **changes: object) -> Object:
    cluster = with_group(llama().build(), **changes)["spec"]
    job = {"entrypoint": "python main.py", "rayClusterSpec": cluster}
    specs: dict[str, Object] = {
        "RayJob": job,
        "RayService": {"rayClusterConfig": cluster},
        "RayCronJob": {"schedule": "0 * * * *", "jobTemplate": job},
    }
    meta = {"name": "llama", "namespace": "team"}
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": meta, "spec": specs[kind]}


@pytest.mark.parametrize("kind", ["RayJob", "RayService", "RayCronJob"])
def test_the_hosts_that_an_object_creates_are_compared(kind: str, diff: Diff, found: Found) -> None:
    live = owner_of(kind)
    assert diff(live, owner_of(kind)) == (0, f"{kind} team/llama: the same\n", "")
    assert of_hosts(found(live, owner_of(kind, replicas=3))) == {("tpu", "created hosts", 4)}
    out = diff(live, owner_of(kind, numOfHosts=2)).out
    whose = "its" if kind == "RayService" else "the next"
    assert f"  * tpu of {whose} RayCluster: deleted hosts, 4 hosts" in out
    assert f"  * tpu of {whose} RayCluster: TPU_WORKER_HOSTNAMES, 4 hosts" in out


@pytest.mark.parametrize(("kind", "suspended"), [
    ("RayJob", {"suspend": True}), ("RayCronJob", {"suspend": True}),
    ("RayCronJob", {"jobTemplate": {"suspend": True}}),
    ("RayService", {"rayClusterConfig": {"suspend": True}}),
])  # fmt: skip
def test_a_suspended_object_creates_no_hosts(kind: str, suspended: Object, found: Found) -> None:
    new = merged(owner_of(kind), {"spec": suspended})
    hosts = {("headgroup", "deleted hosts", 1), ("tpu", "deleted hosts", 8)}
    assert of_hosts(found(owner_of(kind), new)) == hosts


def test_a_job_with_a_cluster_selector_creates_no_hosts(found: Found) -> None:
    live = owner_of("RayJob")
    live["spec"] = {"entrypoint": "a", "clusterSelector": {"ray.io/cluster": "llama"}}
    assert found(live, merged(live, {"spec": {"entrypoint": "b"}}))["hosts"] == []
    ignored = {"rayClusterSpec": owner_of("RayJob")["spec"]["rayClusterSpec"]}
    assert found(live, merged(live, {"spec": ignored}))["hosts"] == []


def test_a_resolved_finding_is_shown_too(found: Found) -> None:
    gone = found(with_group(stored(), numOfHosts=2), written())["gone"]
    assert "tpu-topology-mismatch" in {each["rule"] for each in gone}


def test_pods_that_restart_are_a_finding(found: Found) -> None:
    new = written(spec={"upgradeStrategy": {"type": "Recreate"}})
    group(new)["template"]["spec"]["containers"][0]["image"] = "rayproject/ray:2.55.1"
    result = found(stored(), new)
    assert "recreate-deletes-pods" in {each["rule"] for each in result["found"]}
    paths = {each["path"] for each in result["changes"]}
    assert "spec.workerGroupSpecs[tpu].template.spec.containers[ray-worker].image" in paths


def test_groups_in_another_order_are_one_difference(found: Found) -> None:
    live = stored()
    live["spec"]["workerGroupSpecs"] += [{**group(live), "groupName": "other"}]
    new = merged(live, {"status": None})
    new["spec"]["workerGroupSpecs"] = live["spec"]["workerGroupSpecs"][::-1]
    (change,) = found(live, new)["changes"]
    assert change["path"] == "spec.workerGroupSpecs"
    assert (change["old"], change["new"]) == ("in this order", "in another order")


def test_a_field_of_the_last_apply_that_the_file_lacks_is_removed(diff: Diff) -> None:
    scaled = {"enableInTreeAutoscaling": True}
    live = stored(spec=scaled)
    live["metadata"]["annotations"] = {APPLIED: json.dumps(written(spec=scaled))}
    status, out, _ = diff(live, written())
    assert (status, "~ spec.enableInTreeAutoscaling: true -> (not set)" in out) == (1, True)


def test_an_object_that_does_not_exist_is_new(diff: Diff) -> None:
    status, out, _ = diff(None, with_group(written(), numOfHosts=2))
    assert (status, out.startswith("RayCluster team/llama: new\n")) == (1, True)
    assert "  + deny tpu-topology-mismatch" in out
