"""`ray-webhook diff`: a file compared with live objects."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.diagnostics.scenes import CREATED, Object, Scene, llama, merged
from tests.diagnostics.served import serving
from webhook.cli.main import main

Capture = pytest.CaptureFixture[str]
SAME = "RayCluster team/llama: the same\n"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
Diff = Callable[..., tuple[int, str]]
Found = Callable[[Object, Object], Object]


def stored(**overlay: object) -> Object:
    """Return the RayCluster as the API server has it: with defaults and a status."""
    document = merged(llama().build(), overlay)
    document["metadata"]["creationTimestamp"] = CREATED
    for group in document["spec"]["workerGroupSpecs"]:
        group |= {"minReplicas": 0, "maxReplicas": 2147483647, "rayStartParams": {}}
    found: Object = document | {"status": {"state": "ready"}}
    return found


def written(**overlay: object) -> Object:
    document: Object = merged(llama().build(), overlay)
    del document["metadata"]["uid"]
    return document


@pytest.fixture
def diff(tmp_path: Path, capsys: Capture) -> Diff:
    """Compare an object in a file with the live one, and return the exit status and the output."""

    def run(live: Object | None, new: Object, *arguments: str) -> tuple[int, str]:
        file = tmp_path / "new.yaml"
        file.write_text(yaml.safe_dump(new))
        with serving(Scene(), tmp_path) as (server, kubeconfig):
            if live is not None:
                plural = f"{live['kind'].lower()}s"
                server.answers[f"/apis/ray.io/v1/namespaces/team/{plural}/llama"] = live
            status = main(["diff", "-f", str(file), "--kubeconfig", str(kubeconfig), *arguments])
        return status, capsys.readouterr().out

    return run


@pytest.fixture
def found(diff: Diff) -> Found:
    """Return the differences of an object that changes."""

    def run(live: Object, new: Object) -> Object:
        status, out = diff(live, new, "-o", "json")
        assert status == 1
        (compared,) = json.loads(out)
        result: Object = compared
        return result

    return run


def group(document: Object) -> Object:
    """Return the only group."""
    result: Object = document["spec"]["workerGroupSpecs"][0]
    return result


def test_what_the_api_server_fills_in_is_no_difference(diff: Diff) -> None:
    assert diff(stored(), written()) == (0, SAME)


def test_a_field_that_changes_is_named_with_both_values_and_hosts_are_counted(
    diff: Diff, found: Found
) -> None:
    new = written()
    group(new)["replicas"] = 3
    status, out = diff(stored(), new)
    assert status == 1
    assert "  ~ spec.workerGroupSpecs[tpu].replicas: 2 -> 3\n" in out
    (hosts,) = found(stored(), new)["hosts"]
    assert (hosts["group"], hosts["what"], hosts["hosts"]) == ("tpu", "hosts that come", 4)


def test_a_suspended_raycluster_loses_all_its_hosts(diff: Diff) -> None:
    _, out = diff(stored(), written(spec={"suspend": True}))
    assert "  * headgroup: hosts that go, 1 host, first the head: there -> gone\n" in out
    assert "  * tpu: hosts that go, 8 hosts, first replica 0, host 0: there -> gone\n" in out
    _, out = diff(stored(spec={"suspend": True}), written(spec={"suspend": False}))
    assert "  * tpu: hosts that come, 8 hosts" in out


def test_another_number_of_hosts_changes_what_the_others_are_told(found: Found) -> None:
    new = written()
    group(new)["numOfHosts"] = 2
    result = found(stored(), new)
    assert {(each["what"], each["hosts"]) for each in result["hosts"]} == {
        ("hosts that go", 4),
        ("TPU_WORKER_HOSTNAMES", 4),
    }
    assert {"tpu-topology-mismatch", "num-of-hosts-changed"} <= {
        each["rule"] for each in result["found"]
    }


def owner_of(kind: str, **changes: object) -> Object:
    """Return an object that makes a RayCluster, of which something is changed in its group."""
    cluster = llama().build()["spec"]
    cluster["workerGroupSpecs"][0] |= changes
    job = {"entrypoint": "python main.py", "rayClusterSpec": cluster}
    specs: dict[str, Object] = {
        "RayJob": job,
        "RayService": {"rayClusterConfig": cluster},
        "RayCronJob": {"schedule": "0 * * * *", "jobTemplate": job},
    }
    meta = {"name": "llama", "namespace": "team"}
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": meta, "spec": specs[kind]}


@pytest.mark.parametrize("kind", ["RayJob", "RayService", "RayCronJob"])
def test_the_hosts_that_an_object_makes_are_compared(diff: Diff, found: Found, kind: str) -> None:
    live = owner_of(kind)
    assert diff(live, owner_of(kind)) == (0, f"{kind} team/llama: the same\n")
    (hosts,) = found(live, owner_of(kind, replicas=3))["hosts"]
    assert (hosts["group"], hosts["what"], hosts["hosts"]) == ("tpu", "hosts that come", 4)
    whose = "its" if kind == "RayService" else "the next"
    _, out = diff(live, owner_of(kind, numOfHosts=2))
    assert f"  * tpu of {whose} RayCluster: hosts that go, 4 hosts" in out
    assert f"  * tpu of {whose} RayCluster: TPU_WORKER_HOSTNAMES, 4 hosts" in out


@pytest.mark.parametrize(
    ("kind", "suspended"),
    [
        ("RayJob", {"suspend": True}),
        ("RayCronJob", {"suspend": True}),
        ("RayCronJob", {"jobTemplate": {"suspend": True}}),
        ("RayService", {"rayClusterConfig": {"suspend": True}}),
    ],
)
def test_what_is_suspended_makes_no_hosts(found: Found, kind: str, suspended: Object) -> None:
    hosts = found(owner_of(kind), merged(owner_of(kind), {"spec": suspended}))["hosts"]
    assert {(each["group"], each["what"], each["hosts"]) for each in hosts} == {
        ("headgroup", "hosts that go", 1),
        ("tpu", "hosts that go", 8),
    }


def test_a_job_on_a_raycluster_that_is_there_makes_no_hosts(found: Found) -> None:
    live = owner_of("RayJob")
    live["spec"] = {"entrypoint": "a", "clusterSelector": {"ray.io/cluster": "llama"}}
    assert found(live, merged(live, {"spec": {"entrypoint": "b"}}))["hosts"] == []


def test_a_finding_that_goes_is_told_too(found: Found) -> None:
    live = stored()
    group(live)["numOfHosts"] = 2
    gone = found(live, written())["gone"]
    assert "tpu-topology-mismatch" in {each["rule"] for each in gone}


def test_pods_that_restart_are_told(found: Found) -> None:
    new = written(spec={"upgradeStrategy": {"type": "Recreate"}})
    group(new)["template"]["spec"]["containers"][0]["image"] = "rayproject/ray:2.55.1"
    result = found(stored(), new)
    assert "recreate-deletes-pods" in {each["rule"] for each in result["found"]}
    paths = {each["path"] for each in result["changes"]}
    assert "spec.workerGroupSpecs[tpu].template.spec.containers[ray-worker].image" in paths


def applied(live: Object, last: str) -> Object:
    """Return a live object with its last `kubectl apply`."""
    live["metadata"]["annotations"] = {APPLIED: last}
    return live


def test_what_the_last_apply_had_and_the_file_has_no_more_is_gone(diff: Diff) -> None:
    spec = {"enableInTreeAutoscaling": True}
    live = applied(stored(spec=spec), json.dumps(written(spec=spec)))
    assert "~ spec.enableInTreeAutoscaling: true -> (not set)" in diff(live, written())[1]


def test_an_object_made_by_kubectl_apply_keeps_its_name_and_so_the_names_of_peers(
    found: Found,
) -> None:
    new = written()
    group(new)["numOfHosts"] = 2
    result = found(applied(stored(), json.dumps(written())), new)
    assert result == found(stored(), new)
    (peers,) = (each for each in result["hosts"] if each["what"] == "TPU_WORKER_HOSTNAMES")
    assert ".llama-headless" in peers["old"]
    assert ".llama-headless" in peers["new"]


@pytest.mark.parametrize(
    "last", ["[]", '{"metadata": 1, "spec": 2}', '{"metadata": {"labels": 1}}']
)
def test_a_last_apply_of_another_shape_counts_as_none(diff: Diff, last: str) -> None:
    assert diff(applied(stored(), last), written()) == (0, SAME)


def test_an_object_that_does_not_live_is_new(diff: Diff) -> None:
    new = written()
    group(new)["numOfHosts"] = 2
    status, out = diff(None, new)
    assert status == 1
    assert out.startswith("RayCluster team/llama: new\n")
    assert "  + deny tpu-topology-mismatch" in out


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, capsys: Capture) -> None:
    assert main(["diff", "-f", str(tmp_path / "none.yaml")]) == 2
    assert "No such file" in capsys.readouterr().err
