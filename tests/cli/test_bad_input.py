"""Invalid input: the message names the problem and the fix, and the exit status is 2."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.diagnostics.scenes import Object, Scene, llama
from tests.diagnostics.served import serving
from webhook.cli.main import main
from webhook.manifest.kuberay_pods import MOST_PODS

Capture = pytest.CaptureFixture[str]


def refused(capsys: Capture, *arguments: str) -> str:
    """Return what a command says that ends with 2."""
    try:
        status = main(arguments)
    except SystemExit as end:
        status = int(end.code or 0)
    assert status == 2
    told = capsys.readouterr()
    assert told.out == ""
    return told.err


def written(folder: Path, document: object) -> str:
    file = folder / "given.yaml"
    file.write_text(yaml.safe_dump(document))
    return str(file)


def an_object(kind: str, spec: object, **meta: object) -> Object:
    return {
        "apiVersion": "ray.io/v1",
        "kind": kind,
        "metadata": {"name": "x", **meta},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (an_object("RayJob", 7), "RayJob x: spec: expected a map, found an integer"),
        (
            an_object("RayCronJob", {"jobTemplate": []}),
            "RayCronJob x: spec.jobTemplate: expected a map, found a list",
        ),
        (
            an_object("RayService", {"rayClusterConfig": "text"}),
            "RayService x: spec.rayClusterConfig: expected a map, found a string",
        ),
        (an_object("RayJob", {}, labels=5), "metadata.labels: expected a map, found an integer"),
        (an_object("RayCluster", {}, name=None), "metadata.name: set it"),
    ],
)
def test_an_object_of_a_wrong_shape_is_told_by_field(
    document: Object, said: str, tmp_path: Path, capsys: Capture
) -> None:
    assert said in refused(capsys, "preview", "-f", written(tmp_path, document))


@pytest.mark.parametrize("replicas", [2_000_000_000, 10**23])
def test_more_pods_than_a_cluster_has_are_not_played(
    replicas: int, tmp_path: Path, capsys: Capture
) -> None:
    told = refused(capsys, "preview", "-f", written(tmp_path, llama(replicas).build()))
    assert "RayCluster llama: spec.workerGroupSpecs: 8" in told
    assert f"at most {MOST_PODS}: lower replicas" in told


def test_a_change_to_more_pods_than_a_cluster_has_is_told_by_its_field(
    tmp_path: Path, capsys: Capture
) -> None:
    with serving(Scene(), tmp_path) as (server, kubeconfig):
        server.answers["/apis/ray.io/v1/namespaces/team/rayclusters/llama"] = llama().build()
        file = written(tmp_path, llama(2_000_000_000).build())
        assert main(["diff", "-f", file, "--kubeconfig", str(kubeconfig)]) == 1
    assert "replicas: 2 -> 2000000000" in capsys.readouterr().out


def test_an_object_without_a_name_is_compared_with_nothing(tmp_path: Path, capsys: Capture) -> None:
    for meta in ({"name": None}, {"name": 5}):
        told = refused(capsys, "diff", "-f", written(tmp_path, an_object("RayJob", {}, **meta)))
        assert "metadata.name: set it, to find the object in the cluster" in told


def test_a_file_without_ray_objects_is_named(tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}})
    told = refused(capsys, "diff", "-f", file)
    assert f"{file}: no Ray object in it: give one of RayCluster, RayJob" in told


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: [1", "cannot be read as a kubeconfig: while parsing a flow sequence"),
        (b"", "it is not a map of YAML"),
        (b"text", "it is not a map of YAML"),
        (b"\xff\xfe\x00", "'utf-8' codec can't decode byte 0xff in position 0"),
        (None, "Is a directory"),
    ],
)
def test_a_kubeconfig_that_is_none_is_told(
    content: bytes | None, said: str, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "kubeconfig"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    told = refused(capsys, "status", "--kubeconfig", str(file))
    assert said in told
    assert "name another with --kubeconfig or KUBECONFIG" in told


def test_a_kubeconfig_that_has_a_key_twice_is_read_as_kubectl_does(
    tmp_path: Path, capsys: Capture
) -> None:
    with serving(Scene(), tmp_path) as (_, kubeconfig):
        twice = kubeconfig.read_text().replace('"kind"', '"kind": "Config", "kind"')
        kubeconfig.write_text(twice)
        assert main(["status", "--kubeconfig", str(kubeconfig)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("port", ["65536", "99999999999", "-1", "x", "1.5"])
def test_a_port_that_is_none_is_told(port: str, capsys: Capture) -> None:
    assert f"'{port}' is not a port from 0 to 65535" in refused(
        capsys, "dashboard", f"--port={port}"
    )


@pytest.mark.parametrize("span", ["9" * 400, "9" * 5000, "1d", ""])
def test_a_time_that_is_none_is_told(span: str, capsys: Capture) -> None:
    assert "is not a time: write 90s, 2m or 1h" in refused(capsys, "check", f"--wait={span}")


def test_a_baseline_that_is_a_folder_is_told_without_numbers(
    tmp_path: Path, capsys: Capture
) -> None:
    arguments = ("validate", written(tmp_path, {}), "--baseline", str(tmp_path))
    assert f"--baseline {tmp_path}: Is a directory; make one" in refused(capsys, *arguments)


def test_settings_that_are_no_map_are_told(tmp_path: Path, capsys: Capture) -> None:
    told = refused(capsys, "settings", "check", written(tmp_path, "text"))
    assert "is not a map: begin it with the lines `apiVersion: config.ray-webhook.dev" in told


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("profiles: {f: {A: 5}}", "setting profiles.f.A is 5, and has to be text"),
        ("profiles: {f: [a]}", "setting profiles.f is ['a'], and has to be a map"),
        ("devices: {X: nvidia.com/gpu}", "setting devices.X is 'nvidia.com/gpu', and has to be a"),
        ("devices: {X: [5]}", "setting devices.X.0 is 5, and has to be text"),
    ],
)
def test_a_wrong_type_inside_a_map_of_settings_is_named(
    setting: str, told: str, tmp_path: Path, capsys: Capture
) -> None:
    head = {"apiVersion": "config.ray-webhook.dev/v1alpha1", "kind": "Configuration"}
    file = written(tmp_path, head | yaml.safe_load(setting))
    assert told in refused(capsys, "settings", "check", file)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("inspect", "."), ".: Is a directory: give the path of a tls.crt or ca.crt"),
        (("issue", "--dir", "file"), "file: File exists: give --dir a folder that you may write"),
    ],
)
def test_a_path_that_certificates_cannot_have_is_told(
    arguments: Sequence[str],
    said: str,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert said in refused(capsys, "certs", *arguments)


def run_with(closed: int, *arguments: str) -> tuple[int, str]:
    """Return exit status and errors of a process that has a standard stream closed."""
    script = f"import os, sys; os.close({closed}); os.execv(sys.executable, sys.argv[1:])"
    program = [sys.executable, "-m", "webhook.cli.main", *arguments]
    ended = subprocess.run(
        [sys.executable, "-c", script, *program], capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [("explain", "rule", "tpu-topology-mismatch"), ("completion", "bash"), ("validate", "{file}")],
)
def test_a_closed_output_changes_no_exit_status(arguments: Sequence[str], tmp_path: Path) -> None:
    file = written(tmp_path, llama().build())
    assert run_with(1, *(each.format(file=file) for each in arguments))[0] == 0


@pytest.mark.parametrize("command", ["preview", "diff"])
def test_a_closed_input_is_an_empty_one(command: str) -> None:
    status, told = run_with(0, command, "-f", "-")
    assert (status, "<stdin>: no Ray object" in told) == (2, True)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has one")  # noqa: PTH110
def test_a_full_device_is_told_of_certificates_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "webhook.cli.main", "certs", "issue", "--dir", str(tmp_path)]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == (
        "ray-webhook certs: the output cannot be written: no space is left on the device\n"
    )
