"""`ray-webhook status` with a kubeconfig, on a scene behind a socket."""

import copy
import io
import json
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import a_cluster
from tests.harness.running import At, Ended, Run, Write
from tests.harness.scenes import Scene, instant, llama
from tests.harness.served import serving
from tests.webhook.diagnostics.samples import samples
from webhook.api import names
from webhook.cli.main import main
from webhook.diagnostics.document import document
from webhook.diagnostics.messages import duration

HOST = "llama-tpu-worker-0-3"


@pytest.fixture
def status(at: At) -> Run:
    """Run the command on a scene; `refused` is a path that cannot be read."""

    def call(scene: Scene, *arguments: str, refused: str = "") -> Ended:
        return at(scene, "status", *arguments, change=lambda server: server.refused.add(refused))

    return call


@pytest.fixture
def status_with(status: Run, run: Run, write: Write) -> Run:
    """Run the command on the state of a scene in a file, to which an object is added."""

    def call(scene: Scene, added: dict[str, Any], *arguments: str) -> Ended:
        state = json.loads(status(scene, "-o", "state").out)
        state["items"].append(added)
        return run("status", "--state", write(state), *arguments)

    return call


def test_a_complete_raycluster_exits_with_0(status: Run) -> None:
    code, out, _ = status(Scene())
    assert code == 0
    assert "team/llama  head ■" in out
    assert "replica 1  ■■■■  4/4  complete" in out
    assert "being deleted" not in out
    assert out.splitlines()[-1] == "✓ 1 RayCluster, none degraded"
    assert status(Scene(), "-A").out == out
    assert "node-0-0 node-0-1 node-0-2 node-0-3" in status(Scene(), "-o", "wide").out


def test_a_missing_host_is_drawn_with_a_command(status: Run) -> None:
    code, out, _ = status(Scene().without(HOST))
    assert code == 1
    assert "replica 0  ■■■□  3/4  degraded" in out
    assert "host 3 missing" in out
    assert "✗ host-missing" in out
    assert "\n      kubectl describe raycluster -n team llama\n" in out


@pytest.mark.parametrize(("problem", "state"), [
    ("pod-without-identity", "degraded"), ("", "none needed"),
])  # fmt: skip
def test_pods_without_an_identity_have_a_row(problem: str, state: str, status: Run) -> None:
    scene = Scene(a_cluster("llama").group("cpu", replicas=1))
    if problem:
        scene = samples()[problem].scene()
    else:
        (name,) = [name for name in scene.pods if name != "llama-head"]
        scene.changed(name, metadata={"labels": {names.LABEL_REPLICA_INDEX: None}})
    assert re.search(rf" no identity +1 pod +{state}\n", status(scene).out)


def test_a_pod_group_has_the_reason_of_the_scheduler(status: Run) -> None:
    scene = samples()["podgroup-not-scheduled"].scene()
    condition = {
        "type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable",
        "message": "no domain has room for 4 pods"}  # fmt: skip
    scene.pod_groups[0]["status"] = {"conditions": [condition]}
    code, out, _ = status(scene)
    text = (
        "PodGroup llama-worker-tpu-2xk9b: not scheduled, 1 pod, needs 4 at once; no domain has room"
    )
    assert (code, text in " ".join(out.split())) == (1, True)


def test_a_terminal_with_ascii_gets_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", write_through=True))
    with serving(Scene().without(HOST), tmp_path) as (_, kubeconfig):
        assert main(["status", "--kubeconfig", str(kubeconfig)]) == 1
    out = written.getvalue().decode("ascii")
    assert "x host-missing" in out
    assert "replica 0  ###.  3/4  degraded" in out


def test_pods_that_are_being_deleted_are_counted(status: Run) -> None:
    meta = {"deletionTimestamp": instant(5), "deletionGracePeriodSeconds": 30}
    out = status(Scene().changed(HOST, metadata=meta)).out
    assert "team/llama  head ■  1 pod being deleted" in out


@pytest.mark.parametrize(("lost", "last"), [
    ([], "✗ 1 RayCluster, none degraded; 1 problem of the installation"),
    ([HOST], "✗ 1 RayCluster, 1 degraded; 1 problem of the installation"),
])  # fmt: skip
def test_problems_of_the_installation_count(lost: list[str], last: str, status: Run) -> None:
    scene = Scene().without(*lost)
    other = copy.deepcopy(scene.webhooks[0])
    other["metadata"]["name"] = "ray-webhook-again"
    scene.webhooks.append(other)
    code, out, _ = status(scene)
    assert (code, out.splitlines()[-1]) == (1, last)


@pytest.mark.parametrize("arguments", [
    ("status",), ("status", "-o", "wide"), ("explain", "pod", "llama-tpu-worker-0-2"),
])  # fmt: skip
def test_no_printed_line_ends_with_spaces(arguments: tuple[str, ...], at: At) -> None:
    lines = at(Scene().without(HOST), *arguments).out.splitlines()
    assert len(lines) > 2
    assert lines == [line.rstrip() for line in lines]


def test_json_and_yaml_are_complete(status: Run) -> None:
    scene = Scene().without(HOST)
    found = json.loads(status(scene, "-o", "json").out)
    assert found["degraded"] is True
    (cluster,) = found["clusters"]
    hosts = cluster["groups"][0]["replicas"][0]["hosts"]
    assert [host["state"] for host in hosts] == ["ready"] * 3 + ["missing"]
    assert [problem["id"] for problem in cluster["problems"]] == ["host-missing"]
    code, out, _ = status(scene, "-o", "yaml")
    assert (code, yaml.safe_load(out)["clusters"]) == (1, found["clusters"])


def test_replicas_share_an_entry_only_for_the_same_cause(status: Run) -> None:
    image = samples()["container-not-running"].pods[HOST]
    scene = Scene().changed(HOST, **image).changed("llama-tpu-worker-1-0", **image)
    assert status(scene).out.count("✗ container-not-running") == 1
    end = {"name": "ray-worker", "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
    scene.changed("llama-tpu-worker-1-0", status={"containerStatuses": [end]})
    out = status(scene).out
    assert out.count("✗ container-not-running") == 2
    assert "more replica like it" not in out


def test_many_complete_replicas_share_a_row(status: Run) -> None:
    code, out, _ = status(Scene(llama(replicas=14)).without("llama-tpu-worker-7-2"))
    assert code == 1
    assert "13 replicas of 0-13" in out
    assert "replica 7 " in out
    assert "replica 8 " not in out


def test_a_suspended_raycluster_is_marked(status: Run) -> None:
    scene = Scene()
    scene.cluster["spec"]["suspend"] = True
    assert "head ■  suspended" in status(scene).out
    (reported,) = json.loads(status(scene, "-o", "json").out)["clusters"]
    assert reported["suspended"] is True


def test_64_hosts_of_a_replica_are_drawn(status: Run) -> None:
    assert "■+2  66/66" in status(Scene(a_cluster("llama").group("tpu", hosts=66, replicas=1))).out


def test_a_name_that_no_group_can_have_is_shortened(status: Run) -> None:
    out = status(Scene(a_cluster("llama").group("g" * 9999, replicas=1))).out
    assert "  gggg" in out
    assert len(out) < 2000


def test_one_raycluster_can_be_chosen(status: Run) -> None:
    assert status(Scene(), "llama").status == 0
    code, _, err = status(Scene(), "lama")
    assert (code, "did you mean llama?" in err) == (2, True)


def test_the_ignore_label_has_no_effect_where_the_setting_says_so(status: Run) -> None:
    scene = Scene().without(HOST)
    scene.cluster["metadata"]["labels"] = {names.LABEL_IGNORE: "true"}
    code, out, _ = status(scene)
    text = 'the label admission.ray.io/ignore of the RayCluster is "true"'
    assert (code, text in out) == (0, True)
    code, out, _ = status(scene, "--ignore.rayclusters=false")
    assert (code, "ignored" in out, "✗ host-missing" in out) == (1, False, True)


def test_errors_of_the_connection_have_a_fix(status: Run, run: Run, tmp_path: Path) -> None:
    code, _, err = status(Scene(), refused="/api/v1/namespaces/team/pods")
    assert (code, "ask for the permission, or choose a namespace with -n" in err) == (2, True)
    code, _, err = status(Scene(), "--context", "there")
    assert (code, "has no context 'there': it has here" in err) == (2, True)
    code, out, err = run("status", "--kubeconfig", tmp_path / "none")
    assert (code, out) == (2, "")
    assert err.startswith("ray-webhook status: there is no kubeconfig")
    code, out, err = run("status", "--kubeconfig", tmp_path / "kubeconfig")
    assert (code, out) == (2, "")
    assert re.search(r"127\.0\.0\.1:\d+: Connection refused; is the API server up", err)


@pytest.mark.parametrize(("seconds", "text"), [
    (0, "0 s"), (59, "59 s"), (60, "1 min"), (7199, "1 h"), (86_399, "23 h"), (86_400, "1 d"),
    (200_000, "2 d"), (-5, "0 s"),
])  # fmt: skip
def test_durations_have_the_largest_unit_that_they_fill(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("name", samples())
def test_a_state_in_a_file_has_its_problems(name: str, status: Run, run: Run, write: Write) -> None:
    scene = samples()[name].scene()
    file = write(status(scene, "-o", "state").out)
    of_file = json.loads(run("status", "--state", file, "-o", "json").out)
    now = datetime.fromisoformat(of_file["now"]).timestamp()
    assert of_file == document(scene.examined(now))


def test_the_reason_of_kueue_is_read_from_its_workload(status: Run) -> None:
    done = status(samples()["suspended/Workload"].scene(), "-o", "json")
    assert done.status == 0
    (problem,) = json.loads(done.out)["clusters"][0]["problems"]
    assert "waits in queue tpus: couldn't assign flavors" in problem["message"]
    assert problem["command"].endswith(" raycluster-llama-5d3c1")


def test_a_state_has_no_values_of_other_variables(status: Run) -> None:
    scene = Scene().with_env(HOST, HF_TOKEN="xyzzy-pod")  # noqa: S106
    group = scene.cluster["spec"]["workerGroupSpecs"][0]
    (container,) = group["template"]["spec"]["containers"]
    container["env"] = [{"name": "HF_TOKEN", "value": "xyzzy-template"}]
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "xyzzy-applied"}
    scene.cluster["metadata"]["annotations"] = applied
    text = status(scene, "-o", "state").out
    assert "xyzzy" not in text
    assert "HF_TOKEN" in text
    assert "TPU_WORKER_ID" in text


def test_an_unreadable_kind_is_named_of_any_source(status: Run, run: Run, write: Write) -> None:
    state = status(Scene(), "-o", "state", refused="/api/v1/nodes").out
    of_file = run("status", "--state", write(state))
    for ended in (status(Scene(), refused="/api/v1/nodes"), of_file):
        assert (ended.status, "not read: nodes (forbidden)" in ended.out) == (0, True)


def test_a_pod_of_a_raycluster_that_the_state_lacks_is_left_out(run: Run, write: Write) -> None:
    orphan = {"apiVersion": "v1", **Scene(llama()).pods[HOST], "kind": "Pod"}
    ended = run("status", "--state", write(orphan))
    assert (ended.status, "no RayClusters" in ended.out) == (0, True)


def test_a_failed_job_without_raycluster_is_shown_in_its_namespace(run: Run, write: Write) -> None:
    (job,) = samples()["job-failed"].ray_jobs
    file = write({"apiVersion": "ray.io/v1", "kind": "RayJob", **job})
    ended = run("status", "--state", file)
    assert ended.status == 1
    assert "job-failed  team: RayJob train has failed" in ended.out
    assert ended.out.endswith("no RayClusters; 1 problem of RayJobs and RayServices\n")
    assert run("status", "--state", file, "-n", "other").status == 0
    assert "job-failed" in run("status", "--state", file, "train").out
    assert run("status", "--state", file, "other").status == 2


def test_a_raycluster_is_shown_by_its_owners_name(status: Run, run: Run, write: Write) -> None:
    file = write(status(samples()["job-failed"].scene(), "-o", "state").out)
    by_owner = run("status", "--state", file, "train").out
    assert by_owner.startswith("team/llama  head")
    assert by_owner == run("status", "--state", file, "llama").out


def test_an_owner_without_a_uid_is_of_the_raycluster(status: Run, run: Run, write: Write) -> None:
    state = json.loads(status(samples()["job-failed"].scene(), "-o", "state").out)
    (job,) = (item for item in state["items"] if item["kind"] == names.RAYJOB_KIND)
    del job["metadata"]["uid"]
    assert "job-failed" in run("status", "--state", write(state)).out


QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "team-a", "namespace": "team"},
    "spec": {"hard": {"pods": "8"}},
}


@pytest.mark.parametrize(("used", "fits"), [("7", True), ("8", False)])
def test_a_quota_is_their_cause(used: str, fits: bool, status: Run, status_with: Run) -> None:
    quota = {**QUOTA, "status": {"hard": {"pods": "8"}, "used": {"pods": used}}}
    scene = Scene().without(HOST)
    of_file = status_with(scene, quota)
    scene.quotas.append(quota)
    for ended in (status(scene), of_file):
        assert ended.status == 1
        assert ("✗ pod-refused" in ended.out) == (not fits)
        assert ("host-missing" in ended.out) == fits
        text = (
            "pods are missing: the new pods need 1 of pods for replicas, but ResourceQuota team-a"
        )
        assert (text in ended.out) == (not fits)
        assert ("kubectl describe resourcequota -n team" in ended.out) == (not fits)
        assert "need less" not in ended.out


LIMITING: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"kind": "ResourceQuota", "spec": {"hard": {"limits.cpu": "8"}}},
     ("ResourceQuota few requires limits.cpu of every container",
     "write these amounts in the pod template; KubeRay then creates the pod by itself:",
     "kubectl describe resourcequota -n team")),
    ({"kind": "LimitRange", "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}},
     ("LimitRange few allows at most 1",
     "change the LimitRange, or the amounts in the pod template; KubeRay then creates",
     "kubectl describe limitrange -n team")),
]  # fmt: skip


@pytest.mark.parametrize(("limits", "texts"), LIMITING)
def test_a_limit_that_refuses_missing_pods_has_its_own_remedy(
    limits: dict[str, Any], texts: tuple[str, ...], status_with: Run
) -> None:
    limits = {"apiVersion": "v1", "metadata": {"name": "few", "namespace": "team"}} | limits
    out = " ".join(status_with(Scene().without(HOST), limits).out.split())
    assert all(text in out for text in texts)


def test_limits_that_may_not_be_read_are_left_out(status: Run) -> None:
    scene = Scene().without(HOST)
    scene.quotas.append(QUOTA)
    ended = status(scene, refused="/api/v1/namespaces/team/resourcequotas")
    assert "pod-refused" not in ended.out
    assert "resourcequotas" not in ended.out


def test_an_event_that_is_no_rejection_is_not_shown(status_with: Run) -> None:
    event = samples()["pod-refused"].events[0] | {
        "apiVersion": "v1", "kind": "Event", "reason": "CreatedWorkerPod",
        "message": "Created worker Pod team/llama-tpu-worker-0-2"}  # fmt: skip
    ended = status_with(Scene().without(HOST), event, "-o", "json")
    (cluster,) = json.loads(ended.out)["clusters"]
    assert [problem["id"] for problem in cluster["problems"]] == ["host-missing"]


@pytest.mark.parametrize(
    "kind", ["apiVersion: v1, kind: Pod", "apiVersion: ray.io/v1, kind: RayCluster"]
)
def test_an_object_without_a_name_is_named_by_its_line(kind: str, run: Run, write: Write) -> None:
    file = write(f"{{{kind}, metadata: {{namespace: team}}}}")
    code, _, err = run("status", "--state", file)
    assert (code, str(file) in err) == (2, True)
    assert ": metadata.name: set it: every object needs a name" in err


@pytest.mark.parametrize(
    "text", ["", "---\n---\n", "hello: world", "[]", "{apiVersion: v1, kind: Secret}", None]
)
def test_a_state_of_nothing_is_2(text: str | None, tmp_path: Path, run: Run, write: Write) -> None:
    path = tmp_path if text is None else write(text)
    code, _, err = run("status", "--state", path)
    assert code == 2
    assert err.startswith(f"ray-webhook status: {path}: no RayCluster or Pod in it")


def test_a_value_of_a_wrong_type_in_a_state_is_named_in_words(run: Run, write: Write) -> None:
    file = write("{apiVersion: v1, kind: Node, metadata: {name: a, uid: [b]}}")
    code, _, err = run("status", "--state", file)
    assert (code, "Node a: metadata.uid: expected a string, found a list" in err) == (2, True)
