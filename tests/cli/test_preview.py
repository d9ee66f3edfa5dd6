"""`ray-webhook preview` explains, prints and refuses, and reports invalid input in one line."""

import copy
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import jsonpatch
import pytest
import yaml

from tests.builders import (
    NAMESPACE,
    Object,
    a_cluster,
    a_pod,
    env_of,
    uid_of,
)
from webhook.api import names
from webhook.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
V4 = EXAMPLES / "tpu-v4-2x2x2.yaml"
CLUSTER = a_cluster("c").group("g", hosts=2).build()
BLANK = a_pod().worker("g").of("c").tpu(4).build()


def written(directory: Path, *documents: Object, name: str = "given.yaml") -> str:
    path = directory / name
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def named(pod: Object, name: str) -> Object:
    """Return a pod as it is stored."""
    return {**pod, "metadata": {**pod["metadata"], "name": name, "uid": f"uid-of-{name}"}}


def held(host: int) -> Object:
    return named(
        a_pod().worker("g").of("c").tpu(4).seat(0, host, "g-xh3hf").build(), f"held-{host}"
    )


def test_a_ray_cluster_is_explained_pod_by_pod_in_kuberays_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["preview", "-f", str(V4), "--explain"]) == 0
    out, err = capsys.readouterr()
    heads = [line for line in out.splitlines() if line.startswith("pod ")]
    assert [re.sub(r", tpu-group-\w{5}", "", head) for head in heads] == [
        "pod 1: tpu-v4-head-*: is unchanged",
        "pod 2: tpu-v4-tpu-group-worker-*: replica 0, host 0 (assigned)",
        "pod 3: tpu-v4-tpu-group-worker-*: replica 0, host 1 (assigned)",
    ]
    assert "+ containers[0] TPU_WORKER_ID=1" in out
    assert "+ initContainers[0] TPU_WORKER_ID=1" in out
    assert "+ spec.hostname=tpu-group-0-1" in out
    assert f"+ label {names.LABEL_HOST_INDEX}=1" in out
    assert not err


def test_every_line_of_an_explanation_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", "-f", str(V4)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert lines
    assert not [line for line in lines if not re.search(r"# \S", line)]


def test_a_placeholder_is_marked_as_replaced_and_a_warning_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = (
        a_pod()
        .worker("g")
        .of("c")
        .tpu(4)
        .seat(0, 1, "g-xh3hf")
        .env(names.TPU_WORKER_ID, "0")
        .env(names.NODE_RANK, "1")
    )
    path = written(tmp_path, pod.env(names.TPU_NAME, "by-hand").gpu(1).build())
    two = a_cluster("c").group("g", hosts=2, replicas=2).build()
    assert main(["preview", "-f", path, "--state", written(tmp_path, two, name="state.yaml")]) == 0
    out = capsys.readouterr().out
    assert "~ containers[0] TPU_WORKER_ID=1" in out
    assert "! TPU_NAME" in out
    assert "NODE_RANK=" not in out


def test_kuberays_own_labels_are_shown_as_trusted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", "-f", str(V4), "--multi-host-indexing", "--explain"]) == 0
    out = capsys.readouterr().out
    assert out.count("(carried by its labels, trusted)") == 2
    assert "+ label" not in out


def test_the_patches_are_one_line_for_each_pod(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", "-f", str(V4), "-o", "patch"]) == 0
    patches = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(patches) == 3
    assert patches[0] == []
    assert {operation["op"] for operation in patches[1]} == {"add"}


def test_yaml_and_json_show_the_same_pods(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", "-f", str(V4), "-o", "yaml"]) == 0
    pods = list(yaml.safe_load_all(capsys.readouterr().out))
    assert main(["preview", "-f", str(V4), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "List"
    assert document["items"] == pods
    assert [env_of(pod).get(names.TPU_WORKER_ID) for pod in pods[1:]] == ["0", "1"]


def test_the_printed_patch_makes_the_printed_pod(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = written(tmp_path, BLANK), written(tmp_path, CLUSTER, name="state.yaml")
    assert main(["preview", "-f", path, "--state", state, "-o", "patch"]) == 0
    patch = json.loads(capsys.readouterr().out)
    assert main(["preview", "-f", path, "--state", state, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == jsonpatch.apply_patch(BLANK, patch)


def test_a_pod_takes_the_seat_that_the_state_leaves_free(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    written(state, CLUSTER, name="cluster.yaml")
    (state / "pods.json").write_text(json.dumps({"kind": "List", "items": [held(0)]}))
    (state / "notes.txt").write_text("not a manifest: [")
    assert (
        main(["preview", "-f", written(tmp_path, BLANK), "--state", str(state), "-o", "json"]) == 0
    )
    pod = json.loads(capsys.readouterr().out)
    assert (
        pod["metadata"]["labels"]
        | {names.LABEL_REPLICA_NAME: "g-xh3hf", names.LABEL_HOST_INDEX: "1"}
        == pod["metadata"]["labels"]
    )
    assert pod["spec"]["hostname"] == "g-0-1"


@pytest.mark.parametrize(
    "other",
    [
        a_pod().of("gone").worker("g").seat(0, 0, "g-xh3hf").build(),
        a_pod().of("c").worker("gone").seat(0, 0, "gone-xh3hf").build(),
        {"metadata": {"labels": {names.LABEL_NODE_TYPE: names.NODE_TYPE_WORKER}}},
        {"metadata": {}},
        {},
    ],
    ids=["of no RayCluster", "of no group", "with one label", "without labels", "without anything"],
)
def test_a_pod_in_the_state_that_belongs_to_nothing_takes_no_seat(
    other: Object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"apiVersion": "v1", "kind": "Pod", **other}
    state = written(tmp_path, CLUSTER, other, name="state.yaml")
    assert main(["preview", "-f", written(tmp_path, BLANK), "--state", state, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["spec"]["hostname"] == "g-0-0"


def test_pods_in_the_state_that_have_no_name_yet_hold_a_seat_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nameless = [held(0), held(1)]
    for pod in nameless:
        del pod["metadata"]["name"], pod["metadata"]["uid"]
    state = written(tmp_path, CLUSTER, *nameless, name="state.yaml")
    assert main(["preview", "-f", written(tmp_path, BLANK), "--state", state, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["spec"]["hostname"] == "g-1-0"


def test_a_raycluster_in_the_state_that_has_no_name_makes_no_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nameless = copy.deepcopy(CLUSTER)
    del nameless["metadata"]["name"]
    state = written(tmp_path, CLUSTER, nameless, name="state.yaml")
    assert main(["preview", "-f", written(tmp_path, BLANK), "--state", state, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["spec"]["hostname"] == "g-0-0"


def test_a_pod_that_is_refused_is_explained_as_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = a_pod().of("c").worker("none").build()
    state = written(tmp_path, CLUSTER, name="state.yaml")
    assert main(["preview", "-f", written(tmp_path, pod), "--state", state, "--explain"]) == 1
    out, err = capsys.readouterr()
    assert re.fullmatch(r"pod 1: \S+: REFUSED: metadata\.labels\[ray\.io/group\]: .+\n", out)
    assert "refused: metadata.labels[ray.io/group]: " in err


def test_a_terminating_pod_leaves_its_seat_free(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leaving = held(0)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    state = written(tmp_path, CLUSTER, leaving, held(1), name="state.yaml")
    assert main(["preview", "-f", written(tmp_path, BLANK), "--state", state, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["spec"]["hostname"] == "g-0-0"


def test_several_documents_are_admitted_one_after_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "preview",
                "-f",
                written(tmp_path, BLANK, BLANK, {"kind": "Service"}),
                "--state",
                written(tmp_path, CLUSTER, name="s.yaml"),
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert [line.split(": ")[2][:17] for line in out.splitlines() if line.startswith("pod ")] == [
        "replica 0, host 0",
        "replica 0, host 1",
    ]


def test_a_ray_cluster_may_stand_beside_pods_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = a_cluster("c").group("g", hosts=2).build()
    del cluster["metadata"]["uid"]
    assert main(["preview", "-f", written(tmp_path, cluster, BLANK)]) == 0
    out, err = capsys.readouterr()
    assert not err
    assert len([line for line in out.splitlines() if line.startswith("pod ")]) == 4


def test_a_ray_cluster_is_brought_up_beside_the_pods_that_it_has_already(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = a_cluster("c").group("g", hosts=2).build()
    del cluster["metadata"]["uid"]
    assert (
        main(
            [
                "preview",
                "-f",
                written(tmp_path, cluster),
                "--state",
                written(tmp_path, held(0), held(1), name="s.yaml"),
            ]
        )
        == 0
    )
    assert "replica 1, host 0" in capsys.readouterr().out


def test_a_directory_is_read_file_by_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", "-f", str(EXAMPLES), "--explain"]) == 0
    assert (
        len([line for line in capsys.readouterr().out.splitlines() if line.startswith("pod ")])
        > 100
    )


def test_the_pod_may_come_without_a_state_when_nothing_is_asked_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web"}]},
    }
    assert main(["preview", "-f", written(tmp_path, plain)]) == 0
    assert capsys.readouterr().out == "pod 1: web: is unchanged\n"


def test_a_refused_pod_ends_with_exit_code_1_and_every_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = a_cluster("c").group("a.b", hosts=2).group("fine").build()
    pods = [
        a_pod().worker("a.b").of("c").tpu(4).topology("2x").build(),
        a_pod().worker("fine").of("c").build(),
    ]
    assert (
        main(
            [
                "preview",
                "-f",
                written(tmp_path, *pods),
                "--state",
                written(tmp_path, cluster, name="s.yaml"),
                "-o",
                "json",
            ]
        )
        == 1
    )
    out, err = capsys.readouterr()
    assert names.LABEL_GROUP in err
    assert names.NODE_TPU_TOPOLOGY in err
    assert [item["metadata"]["labels"][names.LABEL_GROUP] for item in json.loads(out)["items"]] == [
        "fine"
    ]


def test_a_refused_pod_takes_no_seat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = a_pod().worker("g").of("c").tpu(4).topology("4x4").build()
    assert (
        main(
            [
                "preview",
                "-f",
                written(tmp_path, wrong, BLANK),
                "--state",
                written(tmp_path, CLUSTER, name="s.yaml"),
            ]
        )
        == 1
    )
    assert "replica 0, host 0" in capsys.readouterr().out


def test_a_pod_whose_ray_cluster_is_unknown_is_refused_with_what_to_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preview", "-f", written(tmp_path, BLANK)]) == 1
    err = capsys.readouterr().err
    assert f"{NAMESPACE}/c with uid {uid_of('c')}" in err
    assert "--state" in err


def test_an_object_that_validate_denies_is_named_beside_its_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = a_cluster("c").group("g", hosts=2).annotated(names.ANNOTATION_PROFILES, "vlm").build()
    path = written(tmp_path, cluster)
    assert main(["preview", path, "-o", "json"]) == 1
    said = capsys.readouterr()
    assert len(json.loads(said.out)["items"]) == 3
    denied = f"validate denies it: metadata.annotations[{names.ANNOTATION_PROFILES}]: "
    assert said.err.startswith(f"ray-webhook preview: RayCluster c: refused: {denied}")
    assert "[annotation-value-invalid]" in said.err
    state = tmp_path / "state.yaml"
    state.write_text(Path(path).read_text())
    assert main(["preview", path, "--state", str(state)]) == 0
    assert capsys.readouterr().err == ""


def test_a_file_without_pods_is_unusable_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preview", "-f", written(tmp_path, {"kind": "Service"})]) == 2
    assert "no Ray object or Pod" in capsys.readouterr().err


POD = "apiVersion: v1\nkind: Pod\n"
CLUSTER_C = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: c}\n"


def a_ray_cluster(group: str) -> str:
    """Return the text of a RayCluster with one worker group, given in YAML."""
    return f"{CLUSTER_C}spec:\n  workerGroupSpecs:\n  - {group}\n"


UNREADABLE = {
    "bad.yaml": ("kind: Pod\nmetadata:\n  name: [\n", r"bad\.yaml:4: not YAML"),
    "tab.yaml": ("kind: Pod\n\tmetadata: {}\n", r"tab\.yaml:2: not YAML"),
    "bad.json": ('{"kind": "Pod",\n]', r"bad\.json:2: not YAML"),
    "text.yaml": ("just text", r"text\.yaml: no Ray object or Pod"),
    "list.yaml": ("- 1\n- 2\n", r"list\.yaml: no Ray object or Pod"),
    "kind.yaml": ("metadata: {}\n", r"kind\.yaml: no Ray object or Pod"),
    "version.yaml": (
        CLUSTER_C.replace("v1", "v2"),
        r"version\.yaml:2: there is no RayCluster in ray\.io/v2",
    ),
    "null.yaml": (f"{POD}metadata:\nspec: {{containers: []}}\n", r"null\.yaml:3: Pod"),
    "word.yaml": (f"{POD}metadata: word\n", r"word\.yaml:3: Pod"),
    "labels.yaml": (f"{POD}metadata:\n  labels: [a]\n", r"labels\.yaml:4: Pod"),
    "hosts.yaml": (
        a_ray_cluster("{groupName: g, numOfHosts: two}"),
        r"hosts\.yaml:6: RayCluster c: .*int",
    ),
    "head.yaml": (
        f"{CLUSTER_C}spec:\n  headGroupSpec: word\n",
        r"head\.yaml:5: RayCluster c: .*headGroupSpec",
    ),
    "template.yaml": (
        a_ray_cluster("{groupName: g, replicas: 1, template: word}"),
        r"template\.yaml:6: RayCluster c: .*template",
    ),
    "spec.yaml": (
        a_ray_cluster("{template: {spec: {containers: [1]}}}"),
        r"spec\.yaml:6: RayCluster c: .*containers",
    ),
    "env.yaml": (
        a_ray_cluster("{template: {spec: {containers: [{env: [1]}]}}}"),
        r"env\.yaml:6: RayCluster c: .*workerGroupSpecs\[0\]\.template\..*\[0\]\.env\[0\]",
    ),
    "deep.json": ('{"kind":' + "[" * 100_000, r"deep\.json:1: nested too deeply"),
    "deep.yaml": ("kind: Pod\nx: " + "[" * 5_000, r"deep\.yaml:2: nested too deeply"),
}


@pytest.mark.parametrize(
    ("name", "text", "said"), [(name, *rest) for name, rest in UNREADABLE.items()], ids=UNREADABLE
)
def test_unreadable_input_ends_with_exit_code_2_and_one_line_that_says_where(
    name: str, text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    assert main(["preview", "-f", str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert re.search(said, err)
    assert err.count("\n") == 1


@pytest.mark.parametrize("option", ["-f", "--state"])
def test_a_file_that_is_not_there_is_named(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "missing.yaml")
    arguments = (
        ["preview", "-f", missing]
        if option == "-f"
        else ["preview", "-f", str(V4), "--state", missing]
    )
    assert main(arguments) == 2
    assert "missing.yaml: No such file" in capsys.readouterr().err


def test_a_file_that_is_not_text_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "image.yaml").write_bytes(b"\x89PNG\xff\xfe")
    assert main(["preview", "-f", str(tmp_path / "image.yaml")]) == 2
    assert "image.yaml:1: not a text file in UTF-8" in capsys.readouterr().err


def test_a_pod_in_the_state_with_a_part_of_a_seat_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = named(a_pod().worker("g").of("c").label(names.LABEL_HOST_INDEX, "0").build(), "odd")
    assert (
        main(
            [
                "preview",
                "-f",
                written(tmp_path, BLANK),
                "--state",
                written(tmp_path, CLUSTER, odd, name="s.yaml"),
            ]
        )
        == 2
    )
    assert re.search(r"s\.yaml:\d+: Pod odd:", capsys.readouterr().err)


@pytest.mark.parametrize("arguments", [[], ["unheard-of"], ["preview", "-f", "x", "-o", "xml"]])
def test_a_wrong_command_line_ends_with_exit_code_2_and_says_what_to_read(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "ray-webhook" in capsys.readouterr().err.splitlines()[-1]


HEAVY = (
    "fastapi",
    "starlette",
    "uvicorn",
    "uvloop",
    "kubernetes",
    "pydantic",
    "cryptography",
    "prometheus_client",
)
"""Not asyncio: a preview reserves by the code of the service."""


def test_it_starts_light() -> None:
    program = (
        "import sys; from webhook.cli.main import main; code = main(sys.argv[1:]); "
        f"sys.stderr.write(','.join(name for name in {HEAVY} if name in sys.modules)); "
        "sys.exit(code)"
    )
    command = [sys.executable, "-c", program, "preview", "-f", str(V4), "-o", "patch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 3


def test_the_reader_of_the_output_may_leave_early() -> None:
    command = f"{sys.executable} -m webhook.cli.main preview -f {EXAMPLES} --explain | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr


def a_shard(name: str, index: str = "") -> Object:
    """Return a RayCluster of the shard group `search`."""
    built = a_cluster(name).group("g").annotated(names.ANNOTATION_SHARD_GROUP, "search")
    return (built.annotated(names.ANNOTATION_SHARD_INDEX, index) if index else built).build()


def test_a_ray_cluster_of_a_shard_group_gets_the_index_that_the_webhook_would_give_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = (
        written(tmp_path, a_shard("a"), a_shard("b")),
        written(tmp_path, a_shard("there", "0"), name="state.yaml"),
    )
    assert main(["preview", "-f", path, "--state", state, "--explain", "-o", "yaml"]) == 0
    out = capsys.readouterr().out
    assert f"+ annotation {names.ANNOTATION_SHARD_INDEX}=1" in out.splitlines()[1]
    assert "RayCluster b: shard 2 of search" in out
    pods = list(yaml.safe_load_all(out[out.index("apiVersion") :]))
    found = [
        env_of(pod, pod["spec"]["containers"][0]["name"])[names.RAY_SHARD_INDEX] for pod in pods
    ]
    assert found == ["1", "1", "2", "2"]


def test_a_ray_cluster_that_is_in_the_state_keeps_its_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = (
        written(tmp_path, a_shard("a")),
        written(tmp_path, a_shard("a", "7"), name="state.yaml"),
    )
    assert main(["preview", "-f", path, "--state", state]) == 0
    assert "RayCluster a: shard 7 of search" in capsys.readouterr().out


def test_a_ray_cluster_whose_index_is_taken_is_refused_without_its_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = (
        written(tmp_path, a_shard("a", "7")),
        written(tmp_path, a_shard("b", "7"), name="state.yaml"),
    )
    assert main(["preview", "-f", path, "--state", state, "--explain"]) == 1
    out, err = capsys.readouterr()
    assert "RayCluster a: REFUSED" in out
    assert "pod 1" not in out
    assert "b has index 7" in err


def test_a_cluster_that_asks_for_slices_of_kueue_shows_them_and_its_pods_have_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    selector = {names.NODE_TPU_ACCELERATOR: "tpu-v6e-slice", names.NODE_TPU_TOPOLOGY: "2x4"}
    template = {
        "spec": {
            "containers": [{"name": "ray-worker", "image": "rayproject/ray:2.54.0"}],
            "nodeSelector": selector,
        }
    }
    cluster = (
        a_cluster("c")
        .annotated(names.ANNOTATION_KUEUE_SLICES, "true")
        .labelled(names.LABEL_KUEUE_QUEUE, "tpus")
        .group("g", hosts=2, template=template)
    )
    cluster.group("other", hosts=2)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cluster.build()))
    assert main(["preview", "-f", str(path), "--explain"]) == 0
    out = capsys.readouterr().out
    assert f"workerGroupSpecs[0] {names.KUEUE_SLICE_REQUIRED_TOPOLOGY}={names.NODE_POOL}" in out
    assert "! no slices for Kueue in group other" in out
    assert main(["preview", "-f", str(path), "-o", "json"]) == 0
    pods = json.loads(capsys.readouterr().out)["items"]
    assert [pod["metadata"]["annotations"].get(names.KUEUE_SLICE_SIZE) for pod in pods] == [
        None,
        "2",
        "2",
        None,
        None,
    ]


def wrapped(kind: str, **more: object) -> Object:
    """Return a RayJob, RayService or RayCronJob with the RayCluster of two replicas."""
    spec = a_cluster("c").group("g", hosts=2, replicas=2).build()["spec"]
    meta = {"name": "nightly", "namespace": NAMESPACE, "labels": {"team": "ml"}, **more}
    job = {"entrypoint": "python main.py", "rayClusterSpec": spec}
    inner = {
        "RayJob": job,
        "RayService": {"rayClusterConfig": spec},
        "RayCronJob": {"schedule": "0 0 * * *", "jobTemplate": job},
    }
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": meta, "spec": inner[kind]}


@pytest.mark.parametrize("kind", ["RayJob", "RayService", "RayCronJob"])
def test_what_makes_a_raycluster_is_shown_with_the_pods_of_that_raycluster(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preview", "-f", written(tmp_path, wrapped(kind)), "-o", "json"]) == 0
    pods = json.loads(capsys.readouterr().out)["items"]
    assert len(pods) == 5
    (owner,) = {pod["metadata"]["labels"][names.LABEL_CLUSTER] for pod in pods}
    assert re.fullmatch(r"nightly(-\w{5})?-\w{5}", owner)
    hosts = {pod["metadata"]["labels"].get(names.LABEL_HOST_INDEX) for pod in pods[1:]}
    assert hosts == {"0", "1"}


def test_annotations_of_a_rayjob_reach_its_raycluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {names.ANNOTATION_SCHEDULING_GROUP: "replica"}
    path = written(tmp_path, wrapped("RayJob", annotations=asked))
    assert main(["preview", "-f", path, "--explain"]) == 0
    assert "spec.schedulingGroup.podGroupName=nightly-" in capsys.readouterr().out


def test_a_rayjob_on_a_raycluster_that_is_there_makes_no_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = wrapped("RayJob")
    job["spec"] = {"clusterSelector": {"ray.io/cluster": "c"}, "entrypoint": "python a.py"}
    assert main(["preview", "-f", written(tmp_path, job)]) == 2
    assert "a RayJob with a clusterSelector runs on" in capsys.readouterr().err


def test_an_object_without_pods_is_denied_as_by_validate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = wrapped("RayJob")
    job["spec"] = {}
    assert main(["preview", "-f", written(tmp_path, job)]) == 1
    assert "validate denies it: " in capsys.readouterr().err


def test_several_files_are_played_one_after_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = written(tmp_path, CLUSTER, name="one.yaml")
    two = written(tmp_path, wrapped("RayService"), name="two.yaml")
    assert main(["preview", "-f", one, "-f", two, "-o", "patch"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3 + 5


def test_standard_input_is_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = io.TextIOWrapper(io.BytesIO(yaml.safe_dump(CLUSTER).encode()))
    monkeypatch.setattr(sys, "stdin", text)
    assert main(["preview", "-f", "-", "-o", "patch"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_summary_has_a_row_for_each_worker_and_of_many_the_first_and_the_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preview", "-f", str(V4), "--summary"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["cluster", "group", "replica", "host"]
    assert [row.split()[:5] for row in rows] == [
        ["tpu-v4", "tpu-group", "0", "0", "tpu-group-0-0"],
        ["tpu-v4", "tpu-group", "0", "1", "tpu-group-0-1"],
    ]
    assert "TPU_WORKER_HOSTNAMES=(2 hosts)" in rows[1]
    many = a_cluster("c").group("g", hosts=4, replicas=8).build()
    assert main(["preview", "-f", written(tmp_path, many), "--summary"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert (len(rows), rows[4]) == (7, "… 27 more")


def test_on_a_terminal_several_replicas_are_summed_up_unless_asked_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    path = written(tmp_path, wrapped("RayJob"))
    assert main(["preview", "-f", path]) == 0
    assert "pod 1:" not in capsys.readouterr().out
    assert main(["preview", "-f", path, "--explain"]) == 0
    assert "pod 1:" in capsys.readouterr().out
    assert main(["preview", "-f", str(V4)]) == 0  # one replica
    assert "pod 1:" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["preview", "diff"])
def test_a_file_has_to_be_named(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 2
    assert "name at least one file" in capsys.readouterr().err


def test_files_are_given_with_or_without_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", "-f", str(V4)]) == 0
    flagged = capsys.readouterr().out
    assert main(["preview", str(V4)]) == 0
    assert capsys.readouterr().out == flagged
