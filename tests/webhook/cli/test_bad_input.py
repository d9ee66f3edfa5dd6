"""Invalid input: the message names the problem and the fix, and the exit status is 2."""

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.builders import a_cluster, a_pod
from tests.harness.running import At, Run, Write
from tests.harness.scenes import Object, Scene, llama
from webhook.api import names
from webhook.cli import parsing
from webhook.manifest.kuberay_pods import MOST_PODS


def refused(run: Run, *arguments: object) -> str:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    return err


def an_object(kind: str, spec: object, **meta: object) -> Object:
    return {
        "apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": "x", **meta},
        "spec": spec}  # fmt: skip


POD = "apiVersion: v1\nkind: Pod\n"
CLUSTER = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: c}\n"


def with_group(group: str) -> str:
    return f"{CLUSTER}spec:\n  workerGroupSpecs:\n  - {group}\n"


@pytest.mark.parametrize(("document", "said"), [
    (f"{POD}metadata:\nspec: {{containers: []}}\n", "given.yaml:3: Pod"),
    (f"{POD}metadata: word\n", "given.yaml:3: Pod"),
    (f"{POD}metadata:\n  labels: [a]\n", "given.yaml:4: Pod"),
    (f"{POD}metadata:\n  labels:\n    a.io/b: x\n    a.io/c: true\n",
     "given.yaml:6: Pod: metadata.labels[a.io/c]: true is not a string: quote"),
])  # fmt: skip
def test_wrong_shapes_have_lines(document: str, said: str, run: Run, write: Write) -> None:
    error = refused(run, "preview", write(document))
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("document", "said"), [
    (an_object("RayJob", 7), "given.yaml:5: RayJob x: refused: validate denies it: spec: "),
    (an_object("RayCronJob", {"jobTemplate": []}), "spec.jobTemplate: jobTemplate: a list"),
    (an_object("RayJob", {}, labels=5), "metadata.labels: "),
    (an_object("RayCluster", {}, name=None), "metadata.name: the name is not set"),
    (with_group("{groupName: g, numOfHosts: two}"),
     "given.yaml:6: RayCluster c: refused: validate denies it: spec.workerGroupSpecs[0].num"),
    (f"{CLUSTER}spec:\n  headGroupSpec: word\n", "given.yaml:5: RayCluster c: refused: "),
    (with_group("{template: {spec: {containers: [{env: [1]}]}}}"), "containers[0].env[0]: "),
])  # fmt: skip
def test_a_wrong_shape_of_a_ray_object_has_the_advice_of_validate(
    document: Object | str, said: str, run: Run, write: Write
) -> None:
    status, out, err = run("preview", write(document))
    assert (status, out) == (1, "")
    assert said in err


def test_a_pod_in_the_state_with_a_part_of_an_identity_is_named(run: Run, write: Write) -> None:
    odd = a_pod().worker("g").of("c").label(names.LABEL_HOST_INDEX, "0").build()
    odd["metadata"] |= {"name": "odd", "uid": "odd"}
    state = write(a_cluster("c").group("g", hosts=2).build(), odd, name="state.yaml")
    pod = write(a_pod().worker("g").of("c").build())
    error = refused(run, "preview", pod, "--state", state)
    assert error.startswith(f"ray-webhook preview: {state}:")
    assert ": Pod odd:" in error


def test_more_pods_than_a_cluster_has_are_refused(run: Run, write: Write) -> None:
    error = refused(run, "preview", write(llama(2_000_000_000).build()))
    assert "RayCluster llama: spec.workerGroupSpecs: 8" in error
    assert f"at most {MOST_PODS}: lower replicas" in error


def test_more_pods_than_a_cluster_has_are_a_change_of_a_field(at: At, write: Write) -> None:
    live = {"/apis/ray.io/v1/namespaces/team/rayclusters/llama": llama().build()}
    file = write(llama(2_000_000_000).build())
    ended = at(Scene(), "diff", file, change=lambda server: server.answers.update(live))
    assert (ended.status, "replicas: 2 -> 2000000000" in ended.out) == (1, True)


def test_unreadable_files_say_why(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_to_read(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    file = write(an_object("RayJob", {}))
    monkeypatch.setattr(Path, "read_bytes", refuse_to_read)  # root may read every file
    assert f"{file}: Permission denied: make it readable for you" in refused(run, "preview", file)


@pytest.mark.parametrize("name", [None, 5])
def test_an_object_without_a_name_cannot_be_compared(name: object, run: Run, write: Write) -> None:
    error = refused(run, "diff", write(an_object("RayJob", {}, name=name)))
    assert "metadata.name: set it, to find the object in the cluster" in error


def test_a_file_without_ray_objects_is_named(run: Run, write: Write) -> None:
    file = write({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}})
    error = refused(run, "diff", file)
    assert f"{file}: no Ray object in it: give one of RayCluster, RayJob" in error


@pytest.mark.parametrize(("content", "said"), [
    (b"a: [1", "cannot be read as a kubeconfig: while parsing a flow sequence"),
    (b"", "it is not a map of YAML"), (b"text", "it is not a map of YAML"),
    (b"\xff\xfe\x00", "kubeconfig: it is not a text file in UTF-8"),
    (None, "kubeconfig: Is a directory"),
    (b"kind: Config", "kubeconfig: Expected key current-context"),
])  # fmt: skip
def test_a_bad_kubeconfig_fails(content: bytes | None, said: str, tmp_path: Path, run: Run) -> None:
    file = tmp_path / "kubeconfig"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    error = refused(run, "status", "--kubeconfig", file)
    assert said in error
    assert "name another with --kubeconfig or KUBECONFIG" in error


def test_a_kubeconfig_with_a_duplicate_key_is_read_as_by_kubectl(at: At, tmp_path: Path) -> None:
    def change(_server: object) -> None:
        file = tmp_path / "kubeconfig"
        file.write_text(file.read_text().replace('"kind"', '"kind": "Config", "kind"'))

    ended = at(Scene(), "status", change=change)
    assert (ended.status, ended.err) == (0, "")


PORTS = ("65536", "99999999999", "-1", "x", "1.5")
TIMES = ("9" * 400, "9" * 5000, "1d", "soon", "")


@pytest.mark.parametrize(("words", "said"), [
    (["preview"], "name at least one file"), (["diff"], "name at least one file"),
    *((["dashboard", f"--port={port}"], f"'{port}' is not a port from 0 to 65535")
      for port in PORTS),
    *((["check", f"--wait={span}"], f"{span!r} is not a time: write 90s, 2m or 1h")
      for span in TIMES),
    *((["validate", "-j", jobs, "."], "is not a number of processes from 1 to 256")
      for jobs in ("0", "-1", "many")),
    (["validate", "--rule", "host-port", "x"],
     "--rule host-port: write host-port=off, host-port=warn or host-port=deny\n"),
    (["validate", "--require"], "name at least one file"),
    (["validate", "x", "--cluster"], "or read a --cluster, but not both"),
    *((["validate", "x", *flags], "add --cluster, or leave them out")
      for flags in (["-n", "x"], ["-A"], ["--context", "x"], ["--kubeconfig", "x"])),
    *((["validate", "--kuberay", release, "-f", "examples/gpu-2x8.yaml"],
       f"no rules for KubeRay {release}: write one of 1.1, 1.2, 1.3, 1.4, 1.5, ")
      for release in ("9.9", "1.0", "2.1")),
    (["status", "--watch", "--state", "x"], "--watch follows a cluster"),
    (["status", "--watch", "-o", "state"], "--watch follows a cluster"),
])  # fmt: skip
def test_an_invalid_argument_is_refused(words: list[str], said: str, run: Run) -> None:
    assert said in refused(run, *words)


def test_a_time_has_a_unit_or_is_in_seconds() -> None:
    assert [parsing.span(each) for each in ("90", "90s", "2m", "1h")] == [90, 90, 120, 3600]


def test_a_baseline_that_is_a_folder_is_named(tmp_path: Path, run: Run, write: Write) -> None:
    error = refused(run, "validate", write({}), "--baseline", tmp_path)
    assert f"--baseline {tmp_path}: Is a directory; make one" in error


@pytest.mark.parametrize(("setting", "said"), [
    ("profiles: {f: {A: 5}}", "setting profiles.f.A is 5, and has to be text"),
    ("profiles: {f: [a]}", "setting profiles.f is ['a'], and has to be a map"),
    ("devices: {X: nvidia.com/gpu}", "setting devices.X is 'nvidia.com/gpu', and has to be a"),
    ("devices: {X: [5]}", "setting devices.X.0 is 5, and has to be text"),
])  # fmt: skip
def test_a_wrong_type_in_a_map_is_named(setting: str, said: str, run: Run, write: Write) -> None:
    head = {"apiVersion": "config.ray-webhook.dev/v1alpha1", "kind": "Configuration"}
    assert said in refused(run, "settings", "check", write(head | yaml.safe_load(setting)))


def run_with(closed: int, *arguments: object) -> tuple[int, str]:
    script = f"import os, sys; os.close({closed}); os.execv(sys.executable, sys.argv[1:])"
    program = [sys.executable, "-m", "webhook.cli.main", *map(str, arguments)]
    ended = subprocess.run(
        [sys.executable, "-c", script, *program], capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("arguments", [
    ("explain", "rule", "tpu-topology-mismatch"), ("completion", "bash"), ("validate",),
])  # fmt: skip
def test_a_closed_output_changes_no_exit_status(arguments: Sequence[str], write: Write) -> None:
    file = [write(llama().build())] if arguments == ("validate",) else []
    assert run_with(1, *arguments, *file)[0] == 0


@pytest.mark.parametrize("command", ["preview", "diff"])
def test_a_closed_input_is_an_empty_one(command: str) -> None:
    status, error = run_with(0, command, "-f", "-")
    assert (status, "<stdin>: no Ray object" in error) == (2, True)
