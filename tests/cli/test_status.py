"""`ray-webhook status` with a kubeconfig, on a scene behind a socket."""

import copy
import io
import json
import sys
from pathlib import Path

import pytest
import yaml

from tests.diagnostics.samples import samples
from tests.diagnostics.scenes import Scene, instant, llama
from tests.diagnostics.served import serving
from webhook.api import names
from webhook.cli.main import main
from webhook.diagnostics.messages import duration

Capture = pytest.CaptureFixture[str]


def status(scene: Scene, folder: Path, *arguments: str, refused: str = "") -> int:
    """Return the exit status of the command on a scene."""
    with serving(scene, folder) as (server, kubeconfig):
        server.refused.add(refused)
        return main(["status", "--kubeconfig", str(kubeconfig), *arguments])


def test_it_exits_with_0_when_nothing_waits(tmp_path: Path, capsys: Capture) -> None:
    assert status(Scene(), tmp_path) == 0
    out = capsys.readouterr().out
    assert "team/llama  head ■" in out
    assert "replica 1  ■■■■  4/4  complete" in out
    assert out.splitlines()[-1] == "✓ 1 RayCluster, nothing waits"


def test_it_draws_the_missing_host_and_says_what_to_do(tmp_path: Path, capsys: Capture) -> None:
    assert status(Scene().without("llama-tpu-worker-0-3"), tmp_path) == 1
    out = capsys.readouterr().out
    assert "replica 0  ■■■□  3/4  waits" in out
    assert "host 3 missing" in out
    assert "✗ host-missing" in out
    assert "\n      kubectl describe raycluster -n team llama\n" in out


def test_it_says_why_the_scheduler_does_not_take_a_pod_group(
    tmp_path: Path, capsys: Capture
) -> None:
    sample = samples()["podgroup-waits"]
    scene = sample.scene()
    condition = {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no domain has room for 4 pods",
    }
    scene.pod_groups[0]["status"] = {"conditions": [condition]}
    assert status(scene, tmp_path) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert (
        "PodGroup llama-worker-tpu-2xk9b: waits, 1 pod, needs 4 at once; "
        "no domain has room for 4 pods"
    ) in out


def test_a_terminal_that_knows_only_ascii_gets_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", write_through=True))
    assert status(Scene().without("llama-tpu-worker-0-3"), tmp_path) == 1
    out = written.getvalue().decode("ascii")
    assert "x host-missing" in out
    assert "replica 0  ###.  3/4  waits" in out


def test_pods_that_are_being_deleted_are_counted_where_there_are_some(
    tmp_path: Path, capsys: Capture
) -> None:
    assert status(Scene(), tmp_path) == 0
    assert "being deleted" not in capsys.readouterr().out
    scene = Scene()
    scene.changed(
        "llama-tpu-worker-0-3",
        metadata={"deletionTimestamp": instant(5), "deletionGracePeriodSeconds": 30},
    )
    status(scene, tmp_path)
    assert "team/llama  head ■  1 pod being deleted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lost", "last"),
    [
        ([], "✗ 1 RayCluster, nothing waits; 1 problem of the installation"),
        (
            ["llama-tpu-worker-0-3"],
            "✗ 1 RayCluster, 1 of them waits; 1 problem of the installation",
        ),
    ],
)
def test_the_last_line_tells_the_installation_from_rayclusters(
    lost: list[str], last: str, tmp_path: Path, capsys: Capture
) -> None:
    scene = Scene().without(*lost)
    other = copy.deepcopy(scene.webhooks[0])
    other["metadata"]["name"] = "ray-webhook-again"
    scene.webhooks.append(other)
    assert status(scene, tmp_path) == 1
    assert capsys.readouterr().out.splitlines()[-1] == last


@pytest.mark.parametrize("arguments", [
    ("status",), ("status", "-o", "wide"), ("explain", "pod", "llama-tpu-worker-0-2"),
    ("migrate", "--from", "kuberay-tpu-webhook"),
])  # fmt: skip
def test_no_printed_line_ends_with_spaces(
    arguments: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    scene = Scene().without("llama-tpu-worker-0-3")
    with serving(scene, tmp_path) as (_, kubeconfig):
        main([*arguments, "--kubeconfig", str(kubeconfig)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2
    assert lines == [line.rstrip() for line in lines]


def test_json_and_yaml_have_the_whole_picture(tmp_path: Path, capsys: Capture) -> None:
    scene = Scene().without("llama-tpu-worker-0-3")
    assert status(scene, tmp_path, "-o", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["waits"] is True
    (cluster,) = found["clusters"]
    assert [host["state"] for host in cluster["groups"][0]["replicas"][0]["hosts"]] == [
        "ready"
    ] * 3 + ["missing"]
    assert [problem["id"] for problem in cluster["problems"]] == ["host-missing"]
    assert status(scene, tmp_path, "-o", "yaml") == 1
    again = yaml.safe_load(capsys.readouterr().out)
    assert again["clusters"] == found["clusters"]


def test_wide_names_replicas_and_nodes(tmp_path: Path, capsys: Capture) -> None:
    assert status(Scene(), tmp_path, "-o", "wide") == 0
    assert "node-0-0 node-0-1 node-0-2 node-0-3" in capsys.readouterr().out


def test_many_complete_replicas_share_a_row(tmp_path: Path, capsys: Capture) -> None:
    assert status(Scene(llama(replicas=14)).without("llama-tpu-worker-7-2"), tmp_path) == 1
    out = capsys.readouterr().out
    assert "13 replicas of 0-13" in out
    assert "replica 7 " in out
    assert "replica 8 " not in out


def test_what_may_not_be_read_is_named(tmp_path: Path, capsys: Capture) -> None:
    assert status(Scene(), tmp_path, refused="/api/v1/nodes") == 0
    assert "not looked at: nodes (forbidden)" in capsys.readouterr().out


def test_it_exits_with_2_when_not_even_pods_may_be_read(tmp_path: Path, capsys: Capture) -> None:
    assert status(Scene(), tmp_path, refused="/api/v1/namespaces/team/pods") == 2
    assert "ask for the right, or look at one namespace with -n" in capsys.readouterr().err


def test_one_raycluster_can_be_asked_for(tmp_path: Path, capsys: Capture) -> None:
    assert status(Scene(), tmp_path, "llama") == 0
    assert status(Scene(), tmp_path, "lama") == 2
    assert "did you mean llama?" in capsys.readouterr().err


def test_a_label_hides_nothing_where_the_setting_says_that_it_leaves_nobody_alone(
    tmp_path: Path, capsys: Capture
) -> None:
    scene = Scene().without("llama-tpu-worker-0-3")
    scene.cluster["metadata"]["labels"] = {names.LABEL_IGNORE: "true"}
    assert status(scene, tmp_path) == 0
    out = capsys.readouterr().out
    assert 'the label admission.ray.io/ignore of the RayCluster is "true"' in out
    assert status(scene, tmp_path, "--ignore.rayclusters=false") == 1
    out = capsys.readouterr().out
    assert "ignored" not in out
    assert "✗ host-missing" in out


def test_all_namespaces_can_be_asked_for(tmp_path: Path, capsys: Capture) -> None:
    assert status(Scene(), tmp_path, "-A") == 0
    assert "team/llama" in capsys.readouterr().out


def test_a_context_that_does_not_exist_is_named(tmp_path: Path, capsys: Capture) -> None:
    assert status(Scene(), tmp_path, "--context", "there") == 2
    assert "has no context 'there': it has here" in capsys.readouterr().err


def test_a_kubeconfig_that_does_not_exist_is_named(tmp_path: Path, capsys: Capture) -> None:
    assert main(["status", "--kubeconfig", str(tmp_path / "none")]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("ray-webhook status: there is no kubeconfig")
    assert captured.out == ""


def test_a_server_that_does_not_listen_is_told_apart(tmp_path: Path, capsys: Capture) -> None:
    with serving(Scene(), tmp_path) as (_, kubeconfig):
        pass
    assert main(["status", "--kubeconfig", str(kubeconfig)]) == 2
    assert "is the API server up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (7199, "1 h"), (200_000, "2 d"), (-5, "0 s")],
)
def test_durations_are_told_in_the_largest_unit_that_they_fill(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def collected(scene: Scene, folder: Path, capsys: Capture, **options: str) -> tuple[Path, str]:
    """Return the file that `status -o state` writes of a scene, and its text."""
    status(scene, folder, "-o", "state", **options)
    text = capsys.readouterr().out
    file = folder / "state.json"
    file.write_text(text)
    return file, text


@pytest.mark.parametrize("name", samples())
def test_a_state_in_a_file_has_the_problems_of_the_cluster_it_was_read_from(
    name: str, tmp_path: Path, capsys: Capture
) -> None:
    scene = samples()[name].scene()
    status(scene, tmp_path, "-o", "json")
    of_cluster = json.loads(capsys.readouterr().out)
    file, _ = collected(scene, tmp_path, capsys)
    main(["status", "--state", str(file), "-o", "json"])
    of_file = json.loads(capsys.readouterr().out)
    for found in (of_cluster, of_file):
        del found["now"]
    assert of_file == of_cluster


def test_a_state_has_no_value_of_a_variable_that_the_webhook_does_not_give(
    tmp_path: Path, capsys: Capture
) -> None:
    scene = Scene().told("llama-tpu-worker-0-3", HF_TOKEN="xyzzy-pod")  # noqa: S106
    group = scene.cluster["spec"]["workerGroupSpecs"][0]
    (container,) = group["template"]["spec"]["containers"]
    container["env"] = [{"name": "HF_TOKEN", "value": "xyzzy-template"}]
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "xyzzy-applied"}
    scene.cluster["metadata"]["annotations"] = applied
    _, text = collected(scene, tmp_path, capsys)
    assert "xyzzy" not in text
    assert "HF_TOKEN" in text
    assert "TPU_WORKER_ID" in text


def test_what_could_not_be_read_is_still_said_of_the_file(tmp_path: Path, capsys: Capture) -> None:
    file, _ = collected(Scene(), tmp_path, capsys, refused="/api/v1/nodes")
    assert main(["status", "--state", str(file)]) == 0
    assert "not looked at: nodes (forbidden)" in capsys.readouterr().out


def test_one_namespace_and_one_raycluster_of_a_state_are_shown(
    tmp_path: Path, capsys: Capture
) -> None:
    file, _ = collected(Scene(), tmp_path, capsys)
    assert main(["status", "llama", "--state", str(file), "-n", "team"]) == 0
    assert main(["status", "--state", str(file), "-n", "other"]) == 0
    assert "no RayClusters" in capsys.readouterr().out


def test_a_pod_of_a_raycluster_that_the_state_lacks_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orphan = next(iter(Scene(llama()).pods.values()))
    file = tmp_path / "state.json"
    file.write_text(json.dumps({"apiVersion": "v1", **orphan, "kind": "Pod"}))
    assert main(["status", "--state", str(file)]) == 0
    assert "no RayClusters" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["Pod", "RayCluster"])
def test_an_object_of_a_state_without_a_name_is_named_by_its_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(llama())
    found = copy.deepcopy(scene.cluster if kind == "RayCluster" else scene.pods["llama-head"])
    del found["metadata"]["name"]
    version = "v1" if kind == "Pod" else "ray.io/v1"
    file = tmp_path / "state.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": version, **found, "kind": kind}))
    assert main(["status", "--state", str(file)]) == 2
    said = capsys.readouterr().err
    assert str(file) in said
    assert ": metadata.name: set it: every object needs a name" in said


def test_a_state_that_cannot_be_read_is_2_and_so_is_to_watch_one(
    tmp_path: Path, capsys: Capture
) -> None:
    assert main(["status", "--state", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err
    assert main(["status", "--state", str(tmp_path), "--watch"]) == 2
    assert main(["status", "-o", "state", "--watch"]) == 2


@pytest.mark.parametrize(
    "text", ["", "---\n---\n", "hello: world", "[]", "{apiVersion: v1, kind: Secret}", None]
)
def test_a_state_without_any_object_of_a_cluster_is_2(
    text: str | None, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "state.yaml"
    if text is None:
        file = tmp_path / "folder"
        file.mkdir()
    else:
        file.write_text(text)
    assert main(["status", "--state", str(file)]) == 2
    assert capsys.readouterr().err.startswith(
        f"ray-webhook status: {file}: no RayCluster or Pod in it"
    )


def test_a_value_of_a_wrong_type_in_a_state_is_named_in_words(
    tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "state.yaml"
    file.write_text("{apiVersion: v1, kind: Node, metadata: {name: a, uid: [b]}}")
    assert main(["status", "--state", str(file)]) == 2
    assert "Node a: metadata.uid: expected a string, found a list" in capsys.readouterr().err
