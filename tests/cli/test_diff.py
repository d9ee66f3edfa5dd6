"""`ray-webhook diff`: a file compared with live objects."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.diagnostics.scenes import (
    CREATED,
    Object,
    Scene,
    llama,
    merged,
)
from tests.diagnostics.served import serving
from webhook.cli.main import main

Capture = pytest.CaptureFixture[str]
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LIVE = "/apis/ray.io/v1/namespaces/team/rayclusters/llama"


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


def diff(folder: Path, live: Object | None, new: Object, *arguments: str) -> int:
    """Return the exit status of the command."""
    file = folder / "new.yaml"
    file.write_text(yaml.safe_dump(new))
    with serving(Scene(), folder) as (server, kubeconfig):
        if live is not None:
            server.answers[LIVE] = live
        return main(["diff", "-f", str(file), "--kubeconfig", str(kubeconfig), *arguments])


def found(folder: Path, live: Object, new: Object, capsys: Capture) -> dict[str, Any]:
    assert diff(folder, live, new, "-o", "json") == 1
    (compared,) = json.loads(capsys.readouterr().out)
    result: dict[str, Any] = compared
    return result


def group(document: Object) -> Object:
    """Return the only group."""
    result: Object = document["spec"]["workerGroupSpecs"][0]
    return result


def test_what_the_api_server_fills_in_is_no_difference(tmp_path: Path, capsys: Capture) -> None:
    assert diff(tmp_path, stored(), written()) == 0
    assert capsys.readouterr().out == "RayCluster team/llama: the same\n"


def test_a_field_that_changes_is_named_with_both_values(tmp_path: Path, capsys: Capture) -> None:
    new = written()
    group(new)["replicas"] = 3
    assert diff(tmp_path, stored(), new) == 1
    assert "  ~ spec.workerGroupSpecs[tpu].replicas: 2 -> 3\n" in capsys.readouterr().out


def test_hosts_that_come_are_counted(tmp_path: Path, capsys: Capture) -> None:
    new = written()
    group(new)["replicas"] = 3
    (hosts,) = found(tmp_path, stored(), new, capsys)["hosts"]
    assert (hosts["group"], hosts["what"], hosts["hosts"]) == ("tpu", "hosts that come", 4)


def test_a_suspended_raycluster_loses_all_its_hosts(tmp_path: Path, capsys: Capture) -> None:
    new = written(spec={"suspend": True})
    assert diff(tmp_path, stored(), new) == 1
    out = capsys.readouterr().out
    assert "  * headgroup: hosts that go, 1 host, first the head: there -> gone\n" in out
    assert "  * tpu: hosts that go, 8 hosts, first replica 0, host 0: there -> gone\n" in out
    assert diff(tmp_path, stored(spec={"suspend": True}), written(spec={"suspend": False})) == 1
    assert "  * tpu: hosts that come, 8 hosts" in capsys.readouterr().out


def test_another_number_of_hosts_changes_what_the_others_are_told(
    tmp_path: Path, capsys: Capture
) -> None:
    new = written()
    group(new)["numOfHosts"] = 2
    result = found(tmp_path, stored(), new, capsys)
    assert {(each["what"], each["hosts"]) for each in result["hosts"]} == {
        ("hosts that go", 4),
        ("TPU_WORKER_HOSTNAMES", 4),
    }
    assert {"tpu-topology-mismatch", "num-of-hosts-changed"} <= {
        each["rule"] for each in result["found"]
    }


PLURALS = {"RayJob": "rayjobs", "RayService": "rayservices", "RayCronJob": "raycronjobs"}


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


def diff_of(folder: Path, live: Object, new: Object, *arguments: str) -> int:
    """Return the exit status of the command for an object that makes a RayCluster."""
    file = folder / "new.yaml"
    file.write_text(yaml.safe_dump(new))
    with serving(Scene(), folder) as (server, kubeconfig):
        path = f"/apis/ray.io/v1/namespaces/team/{PLURALS[live['kind']]}/llama"
        server.answers[path] = live
        return main(["diff", "-f", str(file), "--kubeconfig", str(kubeconfig), *arguments])


@pytest.mark.parametrize("kind", PLURALS)
def test_the_hosts_that_an_object_makes_are_compared(
    kind: str, tmp_path: Path, capsys: Capture
) -> None:
    live = owner_of(kind)
    assert diff_of(tmp_path, live, owner_of(kind)) == 0
    assert capsys.readouterr().out == f"{kind} team/llama: the same\n"
    assert diff_of(tmp_path, live, owner_of(kind, replicas=3), "-o", "json") == 1
    (hosts,) = json.loads(capsys.readouterr().out)[0]["hosts"]
    assert (hosts["group"], hosts["what"], hosts["hosts"]) == ("tpu", "hosts that come", 4)
    assert diff_of(tmp_path, live, owner_of(kind, numOfHosts=2)) == 1
    whose = "its" if kind == "RayService" else "the next"
    out = capsys.readouterr().out
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
def test_what_is_suspended_makes_no_hosts(
    kind: str, suspended: Object, tmp_path: Path, capsys: Capture
) -> None:
    new = merged(owner_of(kind), {"spec": suspended})
    assert diff_of(tmp_path, owner_of(kind), new, "-o", "json") == 1
    hosts = json.loads(capsys.readouterr().out)[0]["hosts"]
    assert {(each["group"], each["what"], each["hosts"]) for each in hosts} == {
        ("headgroup", "hosts that go", 1),
        ("tpu", "hosts that go", 8),
    }


def test_a_job_on_a_raycluster_that_is_there_makes_no_hosts(
    tmp_path: Path, capsys: Capture
) -> None:
    live = owner_of("RayJob")
    live["spec"] = {"entrypoint": "a", "clusterSelector": {"ray.io/cluster": "llama"}}
    new = merged(live, {"spec": {"entrypoint": "b"}})
    assert diff_of(tmp_path, live, new, "-o", "json") == 1
    assert json.loads(capsys.readouterr().out)[0]["hosts"] == []


def test_a_finding_that_goes_is_told_too(tmp_path: Path, capsys: Capture) -> None:
    live = stored()
    group(live)["numOfHosts"] = 2
    gone = found(tmp_path, live, written(), capsys)["gone"]
    assert "tpu-topology-mismatch" in {each["rule"] for each in gone}


def test_pods_that_restart_are_told(tmp_path: Path, capsys: Capture) -> None:
    new = written(spec={"upgradeStrategy": {"type": "Recreate"}})
    group(new)["template"]["spec"]["containers"][0]["image"] = "rayproject/ray:2.55.1"
    result = found(tmp_path, stored(), new, capsys)
    assert "recreate-deletes-pods" in {each["rule"] for each in result["found"]}
    paths = {each["path"] for each in result["changes"]}
    assert "spec.workerGroupSpecs[tpu].template.spec.containers[ray-worker].image" in paths


def test_what_the_last_apply_had_and_the_file_has_no_more_is_gone(
    tmp_path: Path, capsys: Capture
) -> None:
    live = stored(spec={"enableInTreeAutoscaling": True})
    live["metadata"]["annotations"] = {
        APPLIED: json.dumps(written(spec={"enableInTreeAutoscaling": True}))
    }
    assert diff(tmp_path, live, written()) == 1
    assert "~ spec.enableInTreeAutoscaling: true -> (not set)" in capsys.readouterr().out


def test_an_object_made_by_kubectl_apply_keeps_its_name_and_so_the_names_of_peers(
    tmp_path: Path, capsys: Capture
) -> None:
    new = written()
    group(new)["numOfHosts"] = 2
    live = stored()
    live["metadata"]["annotations"] = {APPLIED: json.dumps(written())}
    result = found(tmp_path, live, new, capsys)
    assert result == found(tmp_path, stored(), new, capsys)
    (peers,) = (each for each in result["hosts"] if each["what"] == "TPU_WORKER_HOSTNAMES")
    assert ".llama-headless" in peers["old"]
    assert ".llama-headless" in peers["new"]


@pytest.mark.parametrize(
    "last", ["[]", '{"metadata": 1, "spec": 2}', '{"metadata": {"labels": 1}}']
)
def test_a_last_apply_of_another_shape_counts_as_none(
    tmp_path: Path, capsys: Capture, last: str
) -> None:
    live = stored()
    live["metadata"]["annotations"] = {APPLIED: last}
    assert diff(tmp_path, live, written()) == 0
    assert capsys.readouterr().out == "RayCluster team/llama: the same\n"


def test_an_object_that_does_not_live_is_new(tmp_path: Path, capsys: Capture) -> None:
    new = written()
    group(new)["numOfHosts"] = 2
    assert diff(tmp_path, None, new) == 1
    out = capsys.readouterr().out
    assert out.startswith("RayCluster team/llama: new\n")
    assert "  + deny tpu-topology-mismatch" in out


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, capsys: Capture) -> None:
    assert main(["diff", "-f", str(tmp_path / "none.yaml")]) == 2
    assert "No such file" in capsys.readouterr().err
