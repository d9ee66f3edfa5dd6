"""All commands read files with the same reader, and report the same errors with the same lines."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from tests.builders import a_cluster
from tests.harness.running import Run, Write
from webhook.cli.files import read_manifests

CLUSTER = yaml.safe_dump(a_cluster("c").group("g").build())
POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n"
SERVE = ("serve", "--standalone", "--state")
NOT_YAML: dict[str, tuple[str | bytes, str]] = {
    "open.yaml": (f"{POD}  labels: [\n", ":6: not YAML: "),
    "open.json": ('{"kind": "Pod",\n]', ":2: not YAML: "),
    "next.yaml": ("a: [1\nb: 2\n", ":2: not YAML: "),
    "tab.yaml": ("a: 1\n\tb: 2\n", ":2: not YAML: "),
    "control.yaml": (f"{POD}  name: a\0\n", ":5: not YAML: control characters are not allowed"),
    "binary.yaml": (b"a: 1\nb: \xff\n", ":2: not a text file in UTF-8"),
    "deep.yaml": ("kind: Pod\nx: " + "[" * 300, ":2: nested too deeply"),
    "deep.json": ('{"kind":' + "[" * 100_000, ":1: nested too deeply"),
    "merge.yaml": ("a: 1\n<<: 2\n", ":2: << merges maps only"),
    "alias.yaml": ("kind: x\nspec:\n  a: *nowhere\n", ":3: "),
    "recursive.yaml": ("kind: &a\n  b: *a\n", ":1: "),
    "key.yaml": ("? [a]\n: b\n", ":1: "),
    "template.yaml": ("{{ template }}: x\n", ":1: "),
}


def error(run: Run, *arguments: object) -> str:
    """Return the first line of the error of a command that refuses its input, without its name."""
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert "Traceback" not in err
    return err.splitlines()[0].removeprefix(f"ray-webhook {arguments[0]}: ")


@pytest.mark.parametrize("name", NOT_YAML)
def test_commands_refuse_files_alike(name: str, tmp_path: Path, run: Run, write: Write) -> None:
    text, problem = NOT_YAML[name]
    path, good = tmp_path / name, write(CLUSTER)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    (found,) = {
        error(run, *arguments, path)
        for arguments in (("validate",), ("preview",), ("preview", good, "--state"), SERVE)
    }
    assert found.startswith(f"{path}{problem}")


def test_commands_name_a_missing_file_and_advice(tmp_path: Path, run: Run, write: Write) -> None:
    missing, good = tmp_path / "none.yaml", write(CLUSTER)
    commands = ("preview", good, "--state"), ("diff",), ("status", "--state"), ("check", "--state")
    every = (("validate",), ("preview",), SERVE, ("dashboard", "--state"), *commands)
    (found,) = {error(run, *arguments, missing) for arguments in every}
    assert found.startswith(f"{missing}: No such file or directory: give the path of")
    assert error(run, "validate", "a\0b").startswith("a b: the file cannot be read: ")


@pytest.mark.parametrize("text", ["words\n", "- 1\n", "{}\n", "", "kind: Service\n"])
def test_a_path_without_the_right_object_is_refused(text: str, run: Run, write: Write) -> None:
    path = write(text)
    wanted = f"{path}: no Ray object or Pod in it (apiVersion ray.io/v1 or v1)"
    assert error(run, "preview", path) == wanted
    assert error(run, *SERVE, path) == wanted


@pytest.mark.parametrize("command", [
    ("validate",), ("preview",), ("diff",), ("status", "--state"), SERVE,
])  # fmt: skip
@pytest.mark.parametrize(("wrong", "problem"), [
    ("apiVersion: ray.io/v1\nkind: Raycluster", "there is no Raycluster in ray.io/v1"),
    ("apiVersion: ray.io/v1\nkind: 'RayCluster '", "there is no RayCluster  in ray.io/v1"),
    ("apiVersion: ray.io/v2\nkind: RayCluster", "there is no RayCluster in ray.io/v2"),
    ("kind: RayCluster", "it has no apiVersion"),
    ("apiversion: ray.io/v1\nkind: RayCluster", "it has no apiVersion"),
    ("apiVersion: [ray.io/v1]\nkind: RayCluster", "it has no apiVersion"),
    ("apiVersion: ray.io/v1", "it has no kind"),
    ("apiVersion: ray.io/v1\nkind: 7", "it has no kind"),
])  # fmt: skip
def test_an_object_that_is_of_ray_by_its_kind_or_group_alone_is_refused(
    command: tuple[str, ...], wrong: str, problem: str, run: Run, write: Write
) -> None:
    right = "apiVersion: ray.io/v1\nkind: RayCluster"
    assert CLUSTER.startswith(right)
    path = write(f"{CLUSTER}---\n{CLUSTER.replace(right, wrong)}")
    line = path.read_text().splitlines().index("---") + 2
    assert error(run, *command, path) in {
        f"{path}:{each}: {problem}: write apiVersion ray.io/v1 and kind RayCluster"
        for each in (line, line + 1)
    }


def test_values_beside_objects_and_hidden_files_are_left_out(tmp_path: Path, write: Write) -> None:
    write(f"- 1\n---\nkind: Kustomization\n---\n{CLUSTER}", name="a.yaml")
    for name in (".b.yaml", "..data/c.yaml", ".git/d.json", "notes.txt"):
        write(CLUSTER, name=name)
    pod = '{"apiVersion": "v1", "kind": "Pod"}'
    others = [write(pod, name=name) for name in ("b.yml", "s/c.json")]
    found = [(each.file, each.kind) for each in read_manifests([tmp_path])]
    pods = [(str(path), "Pod") for path in others]
    assert found == [(str(tmp_path / "a.yaml"), "RayCluster"), *pods]


@contextmanager
def unreadable(folder: Path) -> Iterator[None]:
    """Let a folder be one that cannot be read, also where tests run as root."""
    folder.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_an_unreadable_folder_is_no_success_of_any_command(open_folder: Path, run: Run) -> None:
    (closed := open_folder / "a-closed").mkdir()
    (open_folder / "cluster.yaml").write_text(CLUSTER)
    with unreadable(closed):
        commands = ("validate",), ("preview",), ("diff",), ("dashboard", "--state"), SERVE
        (found,) = {error(run, *arguments, open_folder) for arguments in commands}
        below = error(run, "validate", closed / "below" / "cluster.yaml")
    assert found.startswith(f"{closed}: the folder cannot be read: Permission denied: make it")
    assert below.startswith(f"{closed}/below/cluster.yaml: Permission denied")


@pytest.mark.parametrize(
    ("text", "output"), [(CLUSTER, "pod 1: c-head-*"), ("a: [\n", "preview: <stdin>:2: not YAML")]
)
def test_a_dash_is_stdin(text: str, output: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    ended = run("preview", "-")
    assert output in ended.out + ended.err
