"""`ray-webhook preview` explains, prints and refuses what the pods of Ray objects receive."""

import copy
import json
import re
import sys
from pathlib import Path

import jsonpatch
import pytest
import yaml

from tests import ROOT
from tests.builders import NAMESPACE, Object, a_cluster, a_pod, env_of, uid_of
from tests.harness.running import Run, Write
from webhook.api import names
from webhook.config.settings_file import API_VERSION, KIND, NAME

EXAMPLES = ROOT / "examples"
V4 = EXAMPLES / "tpu-v4-2x2x2.yaml"
CLUSTER = a_cluster("c").group("g", hosts=2).build()
BLANK = a_pod().worker("g").of("c").tpu(4).build()


def held(host: int, **meta: object) -> Object:
    pod = a_pod().worker("g").of("c").tpu(4).identity(0, host, "g-xh3hf").build()
    own = {"name": f"held-{host}", "uid": f"uid-of-held-{host}", **meta}
    return {**pod, "metadata": {**pod["metadata"], **own}}


def nameless(document: Object) -> Object:
    document = copy.deepcopy(document)
    for key in ("name", "uid"):
        document["metadata"].pop(key, None)
    return document


def headings(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("pod ")]


def test_a_raycluster_is_explained_pod_by_pod_in_the_order_of_kuberay(run: Run) -> None:
    status, out, err = run("preview", "-f", V4, "--explain")
    assert (status, err) == (0, "")
    assert [re.sub(r", tpu-group-\w{5}", "", head) for head in headings(out)] == [
        "pod 1: tpu-v4-head-*: is unchanged",
        "pod 2: tpu-v4-tpu-group-worker-*: replica 0, host 0 (assigned)",
        "pod 3: tpu-v4-tpu-group-worker-*: replica 0, host 1 (assigned)",
    ]
    commands = [line for line in out.splitlines() if " starts with: " in line]
    assert [line.partition(" starts with: ")[0] for line in commands] == [
        "tpu-v4, headgroup",
        "tpu-v4, tpu-group",
    ]
    assert "ray start --address=tpu-v4-head-svc.default.svc.cluster.local:6379" in commands[1]
    assert "+ containers[0] TPU_WORKER_ID=1" in out
    assert "+ initContainers[0] TPU_WORKER_ID=1" in out
    assert "+ spec.hostname=tpu-group-0-1" in out
    lines = [line for line in out.splitlines() if line.startswith("  ")]
    assert not [line for line in lines if not re.search(r"# \S", line)]
    assert f"+ label {names.LABEL_HOST_INDEX}=1" in out
    assert run("preview", V4).out == out, "with or without a flag for the file"


def test_a_placeholder_is_marked_as_replaced_and_a_warning_is_shown(run: Run, write: Write) -> None:
    pod = a_pod().worker("g").of("c").tpu(4).gpu(1).identity(0, 1, "g-xh3hf")
    pod.env(names.TPU_WORKER_ID, "0").env(names.NODE_RANK, "1").env(names.TPU_NAME, "by-hand")
    two = write(a_cluster("c").group("g", hosts=2, replicas=2).build(), name="state.yaml")
    status, out, _ = run("preview", write(pod.build()), "--state", two)
    assert status == 0
    assert "~ containers[0] TPU_WORKER_ID=1" in out
    assert "! TPU_NAME" in out
    assert "NODE_RANK=" not in out


def test_labels_of_kuberay_are_shown_as_trusted(run: Run) -> None:
    status, out, _ = run("preview", V4, "--multi-host-indexing", "--explain")
    assert status == 0
    assert out.count("(carried by its labels, trusted)") == 2
    assert "+ label" not in out


def test_yaml_and_json_show_the_same_pods(run: Run) -> None:
    pods = list(yaml.safe_load_all(run("preview", V4, "-o", "yaml").out))
    document = json.loads(run("preview", V4, "-o", "json").out)
    assert (document["kind"], document["items"]) == ("List", pods)
    assert [env_of(pod).get(names.TPU_WORKER_ID) for pod in pods[1:]] == ["0", "1"]


def test_the_printed_patch_makes_the_printed_pod(run: Run, write: Write) -> None:
    arguments = ("preview", write(BLANK), "--state", write(CLUSTER, name="state.yaml"), "-o")
    patch = json.loads(run(*arguments, "patch").out)
    assert json.loads(run(*arguments, "json").out) == jsonpatch.apply_patch(BLANK, patch)


def test_a_pod_gets_the_identity_that_the_state_leaves_free(run: Run, write: Write) -> None:
    state = write(CLUSTER, name="state/cluster.yaml").parent
    write(json.dumps({"kind": "List", "items": [held(0)]}), name="state/pods.json")
    write("not a manifest: [", name="state/notes.txt")
    status, out, _ = run("preview", write(BLANK), "--state", state, "-o", "json")
    pod = json.loads(out)
    labels = pod["metadata"]["labels"]
    wanted = {names.LABEL_REPLICA_NAME: "g-xh3hf", names.LABEL_HOST_INDEX: "1"}
    assert (status, labels | wanted, pod["spec"]["hostname"]) == (0, labels, "g-0-1")


def other(**content: object) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", **content}


@pytest.mark.parametrize(("state", "hostname"), [
    ([a_pod().of("gone").worker("g").identity(0, 0, "g-xh3hf").build()], "g-0-0"),
    ([a_pod().of("c").worker("gone").identity(0, 0, "gone-xh3hf").build()], "g-0-0"),
    ([other(metadata={"labels": {names.LABEL_NODE_TYPE: names.NODE_TYPE_WORKER}})], "g-0-0"),
    ([other(metadata={})], "g-0-0"),
    ([other()], "g-0-0"),
    ([nameless(held(0)), nameless(held(1))], "g-1-0"),
    ([nameless(CLUSTER)], "g-0-0"),
    ([held(0, deletionTimestamp="2026-01-01T00:00:00Z"), held(1)], "g-0-0"),
], ids=["of no RayCluster", "of no group", "with one label", "without labels", "without anything",
        "without names", "RayCluster without a name", "terminating"])  # fmt: skip
def test_live_pods_are_counted(state: list[Object], hostname: str, run: Run, write: Write) -> None:
    given = write(CLUSTER, *state, name="state.yaml")
    status, out, _ = run("preview", write(BLANK), "--state", given, "-o", "json")
    assert (status, json.loads(out)["spec"]["hostname"]) == (0, hostname)


def test_a_denied_pod_is_explained_as_refused(run: Run, write: Write) -> None:
    pod, state = a_pod().of("c").worker("none").build(), write(CLUSTER, name="state.yaml")
    status, out, err = run("preview", write(pod, pod), "--state", state, "--explain")
    assert status == 1
    assert re.fullmatch(r"pod 1: \S+: REFUSED\npod 2: \S+: REFUSED\n", out)
    assert err.count("refused: metadata.labels[ray.io/group]: ") == 1


def test_several_documents_are_admitted_in_turn_and_a_denied_one_gets_no_identity(
    run: Run, write: Write
) -> None:
    wrong = a_pod().worker("g").of("c").tpu(4).topology("4x4").build()
    given = write(wrong, BLANK, BLANK, {"kind": "Service"})
    status, out, _ = run("preview", given, "--state", write(CLUSTER, name="state.yaml"))
    places = [line.split(": ")[2][:17] for line in headings(out)]
    assert (status, places) == (1, ["REFUSED", "replica 0, host 0", "replica 0, host 1"])


def test_a_raycluster_may_be_given_with_pods_of_its_own(run: Run, write: Write) -> None:
    cluster = copy.deepcopy(CLUSTER)
    del cluster["metadata"]["uid"]
    status, out, err = run("preview", write(cluster, BLANK))
    assert (status, len(headings(out)), err) == (0, 4, "")
    state = write(held(0), held(1), name="state.yaml")
    assert "replica 1, host 0" in run("preview", write(cluster), "--state", state).out


def test_the_files_of_a_directory_and_several_files_are_read(run: Run, write: Write) -> None:
    status, out, _ = run("preview", EXAMPLES, "--explain")
    assert (status, len(headings(out)) > 100) == (0, True)
    two = write(wrapped("RayService"), name="two.yaml")
    assert run("preview", "-f", write(CLUSTER), "-f", two, "-o", "patch").out.count("\n") == 3 + 5


def test_a_pod_older_than_the_hosts_of_its_group_has_no_identity(run: Run, write: Write) -> None:
    pod = a_pod().of("c").worker("g").label(names.LABEL_REPLICA_INDEX, "0").build()
    cluster = a_cluster("c").group("g", hosts=2, replicas=1).build()
    state = write(cluster, pod, name="state.yaml")
    status, out, err = run("preview", write(cluster), "--state", state, "--explain")
    assert (status, out.count("replica 0, host")) == (0, 2)
    assert err.count("a group of 2 hosts needs all three identity labels; recreate the pod") == 1


def test_a_pod_that_is_not_of_ray_needs_no_state(run: Run, write: Write) -> None:
    plain = other(metadata={"name": "web"}, spec={"containers": [{"name": "web"}]})
    assert run("preview", write(plain)) == (0, "pod 1: web: is unchanged\n", "")


def test_a_denied_pod_ends_with_exit_status_1_and_every_reason(run: Run, write: Write) -> None:
    cluster = write(a_cluster("c").group("a.b", hosts=2).group("fine").build(), name="state.yaml")
    wrong = a_pod().worker("a.b").of("c").tpu(4).topology("2x").build()
    given = write(wrong, a_pod().worker("fine").of("c").build())
    status, out, err = run("preview", given, "--state", cluster, "-o", "json")
    assert status == 1
    assert names.LABEL_GROUP in err
    assert names.NODE_TPU_TOPOLOGY in err
    (item,) = json.loads(out)["items"]
    assert item["metadata"]["labels"][names.LABEL_GROUP] == "fine"


def test_a_pod_of_an_unknown_raycluster_is_refused_with_advice(run: Run, write: Write) -> None:
    status, _, err = run("preview", write(BLANK))
    assert status == 1
    assert f"{NAMESPACE}/c with uid {uid_of('c')}" in err
    assert "--state" in err


def test_an_object_that_validate_denies_has_its_reason_once_and_no_pods(
    run: Run, write: Write
) -> None:
    wrong = a_cluster("b").group("g", hosts=3).build()
    template = a_pod().worker("g").of("b").tpu(4).topology("2x2x2").build()
    wrong["spec"]["workerGroupSpecs"][0]["template"] = {"spec": template["spec"]}
    path = write(wrong, a_cluster("c").group("g", hosts=2).build())
    status, out, err = run("preview", path, "--explain")
    assert (status, len(headings(out)), "pod" in err) == (1, 3, False)
    assert (out + err).count("[tpu-topology-mismatch]") == 1
    cluster = a_cluster("c").group("g", hosts=2).opting(profiles="vlm").build()
    path = write(cluster)
    status, out, err = run("preview", path, "--summary")
    denied = f"validate denies it: metadata.annotations[{names.ANNOTATION_PROFILES}]: "
    assert (status, out) == (1, "")
    assert re.match(rf"ray-webhook preview: {path}:\d+: RayCluster c: refused: ", err)
    assert denied in err
    assert "[annotation-value-invalid]" in err
    status, _, err = run("preview", path, "--state", write(cluster, name="state.yaml"))
    assert (status, err) == (0, ""), "an update is denied only for what is new"
    job = wrapped("RayJob") | {"spec": {}}
    status, _, err = run("preview", write(job))
    assert (status, "validate denies it: " in err) == (1, True)


def test_a_number_without_a_fraction_counts_as_an_integer(run: Run, write: Write) -> None:
    cluster = a_cluster("c").group("g", hosts=2).build()
    text = yaml.safe_dump(cluster)
    for number in ("2.0", "2e0", "0.2e+01"):  # as templates of Helm write large numbers
        path = write(text.replace("numOfHosts: 2", f"numOfHosts: {number}"))
        assert run("validate", path).status == 0
        status, out, _ = run("preview", path, "--explain")
        assert (status, len(headings(out))) == (0, 3)


def test_rules_devices_and_profiles_of_a_repository_count(
    run: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"limits": {"habana.ai/gaudi": "8"}}
    container = {"name": "ray-worker", "image": "ray", "resources": limits}
    template = {"spec": {"containers": [container]}}
    cluster = a_cluster("c").group("g", hosts=2, template=template)
    path = write(cluster.opting(profiles="fabric", shard_index="x").build())
    (tmp_path / NAME).write_text(
        f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
        "devices: {HPU: [habana.ai/gaudi]}\nprofiles: {fabric: {MY_SIZE: '{hosts}x{devices}'}}\n"
        "validation: {levels: {annotation-value-invalid: off}}\n"
    )
    ended = run("preview", path)
    assert (ended.status, "unknown profile" in ended.err) == (1, True)
    monkeypatch.chdir(tmp_path)
    status, out, err = run("preview", path, "-o", "yaml")
    assert (status, "unknown profile" in err, "value: 2x8" in out) == (0, False, True)


def test_the_warnings_of_validate_are_printed_in_one_line_for_each(run: Run, write: Write) -> None:
    cluster = a_cluster("c").group("g").build()
    cluster["spec"]["rayVersion"] = "nightly"
    text = yaml.safe_dump(cluster).replace("name: c\n", "name: b\n  name: c\n", 1)
    status, _, err = run("preview", write(text))
    assert status == 0
    for rule in ("ray-version-unreadable", "key-duplicate"):
        (line,) = [each for each in err.splitlines() if each.endswith(f"[{rule}]")]
        assert ": RayCluster c: warning: " in line


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob"])
def test_pods_of_a_generated_name_are_admitted(run: Run, write: Write, kind: str) -> None:
    document = a_cluster("c").group("g", hosts=2).build() | {"kind": kind}
    document["metadata"] = {"generateName": "train-"}
    document["spec"]["rayVersion"] = "nightly"
    if kind == "RayJob":
        document["spec"] = {"entrypoint": "python a.py", "rayClusterSpec": document["spec"]}
    status, out, err = run("preview", write(document), "-o", "yaml")
    assert (status, err.count("\n"), f": {kind} train-: warning: " in err) == (0, 1, True)
    (cluster,) = {pod["metadata"]["labels"][names.LABEL_CLUSTER] for pod in yaml.safe_load_all(out)}
    suffixes = 2 if kind == "RayJob" else 1
    assert re.fullmatch(f"train(-[a-z0-9]{{5}}){{{suffixes}}}", cluster)


def a_shard(name: str, index: str = "") -> Object:
    built = a_cluster(name).group("g").opting(shard_group="search")
    return (built.opting(shard_index=index) if index else built).build()


def test_a_raycluster_of_a_shard_group_gets_or_keeps_its_index(run: Run, write: Write) -> None:
    path = write(a_shard("a"), a_shard("b"))
    state = write(a_shard("there", "0"), name="state.yaml")
    status, out, _ = run("preview", path, "--state", state, "--explain", "-o", "yaml")
    assert status == 0
    assert f"+ annotation {names.ANNOTATION_SHARD_INDEX}=1" in out.splitlines()[1]
    assert "RayCluster b: shard 2 of search" in out
    pods = list(yaml.safe_load_all(out[out.index("apiVersion") :]))
    containers = [pod["spec"]["containers"][0]["name"] for pod in pods]
    found = [env_of(*each)[names.RAY_SHARD_INDEX] for each in zip(pods, containers, strict=True)]
    assert found == ["1", "1", "2", "2"]
    state = write(a_shard("a", "7"), name="state.yaml")
    status, out, _ = run("preview", write(a_shard("a")), "--state", state)
    assert (status, "RayCluster a: shard 7 of search" in out) == (0, True)


def test_a_raycluster_with_a_duplicate_index_shows_no_pods(run: Run, write: Write) -> None:
    state = write(a_shard("b", "7"), name="state.yaml")
    status, out, err = run("preview", write(a_shard("a", "7")), "--state", state, "--explain")
    assert (status, headings(out)) == (1, [])
    assert "RayCluster a: REFUSED" in out
    assert "b has index 7" in err


SERVE = "applications: [{name: a, import_path: 'a:b'}]"


def wrapped(kind: str, **more: object) -> Object:
    spec = a_cluster("c").group("g", hosts=2, replicas=2).build()["spec"]
    meta = {"name": "nightly", "namespace": NAMESPACE, "labels": {"team": "ml"}, **more}
    job = {"entrypoint": "python main.py", "rayClusterSpec": spec}
    inner = {
        "RayJob": job,
        "RayService": {"rayClusterConfig": spec, "serveConfigV2": SERVE},
        "RayCronJob": {"schedule": "0 0 * * *", "jobTemplate": job},
    }
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": meta, "spec": inner[kind]}


@pytest.mark.parametrize("kind", ["RayJob", "RayService", "RayCronJob"])
def test_an_owner_of_a_raycluster_is_shown_with_its_pods(kind: str, run: Run, write: Write) -> None:
    status, out, _ = run("preview", write(wrapped(kind)), "-o", "json")
    pods = json.loads(out)["items"]
    assert (status, len(pods)) == (0, 5)
    (owner,) = {pod["metadata"]["labels"][names.LABEL_CLUSTER] for pod in pods}
    assert re.fullmatch(r"nightly(-\w{5})?-\w{5}", owner)
    hosts = {pod["metadata"]["labels"].get(names.LABEL_HOST_INDEX) for pod in pods[1:]}
    assert hosts == {"0", "1"}


def test_annotations_of_a_rayjob_reach_its_raycluster(run: Run, write: Write) -> None:
    asked = {names.ANNOTATION_SCHEDULING_GROUP: "replica"}
    status, out, _ = run("preview", write(wrapped("RayJob", annotations=asked)), "--explain")
    assert (status, "spec.schedulingGroup.podGroupName=nightly-" in out) == (0, True)


@pytest.mark.parametrize("has_cluster", [False, True])
def test_a_rayjob_with_a_selector_has_no_pods(run: Run, write: Write, has_cluster: bool) -> None:
    job = wrapped("RayJob")
    job["spec"] |= {"clusterSelector": {"ray.io/cluster": "c"}, "entrypoint": "python a.py"}
    if not has_cluster:
        del job["spec"]["rayClusterSpec"]
    status, _, err = run("preview", write(job))
    assert (status, "a RayJob with a clusterSelector runs on" in err) == (2, True)


def test_a_summary_has_a_row_a_worker_or_the_first_and_the_last(run: Run, write: Write) -> None:
    head, *rows = run("preview", V4, "--summary").out.splitlines()
    assert head.split()[:4] == ["cluster", "group", "replica", "host"]
    assert [row.split()[:5] for row in rows] == [
        ["tpu-v4", "tpu-group", "0", "0", "tpu-group-0-0"],
        ["tpu-v4", "tpu-group", "0", "1", "tpu-group-0-1"],
    ]
    assert "TPU_WORKER_HOSTNAMES=(2 hosts)" in rows[1]
    many = write(a_cluster("c").group("g", hosts=4, replicas=8).build())
    rows = run("preview", many, "--summary").out.splitlines()
    assert (len(rows), rows[4]) == (7, "… 27 more")


def test_a_terminal_gets_a_summary(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    path = write(wrapped("RayJob"))
    assert headings(run("preview", path).out) == []
    assert len(headings(run("preview", path, "--explain").out)) == 5
    assert len(headings(run("preview", V4).out)) == 3, "one replica"
