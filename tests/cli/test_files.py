"""All commands read files with the same reader, and report the same errors with the same lines."""

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from tests.builders import a_cluster
from webhook.cli.files import read_manifests
from webhook.cli.main import main

CLUSTER = yaml.safe_dump(a_cluster("c").group("g").build())
POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n"

Said = Callable[..., str]

UNREADABLE = {
    "doubled.yaml": (f"{POD}  name: b\n", ":5: the key 'name' stands on line 4 already"),
    "doubled.json": ('{"apiVersion": "v1",\n"kind": "Pod",\n"kind": "Pod"}', ":3: the key 'kind' "),
    "open.yaml": (f"{POD}  labels: [\n", ":6: not YAML: "),
    "control.yaml": (f"{POD}  name: a\0\n", ":5: not YAML: control characters are not allowed"),
    "open.json": ('{"kind": "Pod",\n]', ":2: not YAML: "),
    "binary.yaml": (b"a: 1\nb: \xff\n", ":2: not a text file in UTF-8"),
    "deep.yaml": ("a: " + "[" * 300, ":1: nested too deeply"),
    "merge.yaml": ("a: 1\n<<: 2\n", ":2: << merges maps only"),
}


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Said:
    """Run a command that has to refuse its input; return what it says, without its own name."""

    def call(*arguments: object) -> str:
        capfd.readouterr()
        assert main([str(argument) for argument in arguments]) == 2
        out, err = capfd.readouterr()
        assert not out
        return err.splitlines()[0].removeprefix(f"ray-webhook {arguments[0]}: ")

    return call


@pytest.mark.parametrize(("name", "text", "problem"), [
    (name, *rest) for name, rest in UNREADABLE.items()
], ids=UNREADABLE)  # fmt: skip
def test_every_command_refuses_a_file_with_the_same_words_and_line(
    name: str, text: str | bytes, problem: str, tmp_path: Path, said: Said
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    (good := tmp_path / "good.yaml").write_text(CLUSTER)
    heard = {
        said("validate", path),
        said("preview", "-f", path),
        said("preview", "-f", good, "--state", path),
        said("serve", "--standalone", "--state", path),
    }
    (error,) = heard
    assert error.startswith(f"{path}{problem}")


def test_every_command_names_a_file_that_is_missing_and_what_to_give(
    tmp_path: Path, said: Said
) -> None:
    missing = tmp_path / "none.yaml"
    heard = {
        said("validate", missing),
        said("preview", "-f", missing),
        said("serve", "--standalone", "--state", missing),
    }
    (error,) = heard
    assert error.startswith(f"{missing}: No such file or directory: give the path of")


@pytest.mark.parametrize("text", [
    "words\n", "- 1\n", "{}\n", "",
])  # fmt: skip
def test_a_path_with_nothing_that_is_wanted_is_refused(
    text: str, tmp_path: Path, said: Said
) -> None:
    path = tmp_path / "given.yaml"
    path.write_text(text)
    wanted = f"{path}: no Ray object or Pod in it (apiVersion ray.io/v1 or v1)"
    assert said("preview", "-f", path) == wanted
    assert said("serve", "--standalone", "--state", path) == wanted


@pytest.mark.parametrize("command", [
    ("preview",), ("diff",), ("status", "--state"), ("serve", "--standalone", "--state"),
])  # fmt: skip
@pytest.mark.parametrize(("right", "wrong", "problem"), [
    ("kind: RayCluster", "kind: Raycluster", "there is no Raycluster in ray.io/v1"),
    ("ray.io/v1", "ray.io/v2", "there is no RayCluster in ray.io/v2"),
    ("apiVersion: ray.io/v1", "version: ray.io/v1", "it has no apiVersion"),
])  # fmt: skip
def test_an_object_that_is_of_ray_by_its_kind_or_group_alone_is_refused(
    command: tuple[str, ...], right: str, wrong: str, problem: str, tmp_path: Path, said: Said
) -> None:
    path = tmp_path / "given.yaml"
    assert right in CLUSTER
    path.write_text(f"{CLUSTER}---\n{CLUSTER.replace(right, wrong)}")
    line = path.read_text().splitlines().index("---") + 2
    assert said(*command, path) in {
        f"{path}:{each}: {problem}: write apiVersion ray.io/v1 and kind RayCluster"
        for each in (line, line + 1)
    }


def test_what_stands_beside_objects_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"- 1\n---\nkind: Kustomization\n---\n{CLUSTER}")
    assert [each.kind for each in read_manifests([tmp_path])] == ["RayCluster"]


def test_hidden_files_and_folders_of_a_folder_are_left_out(tmp_path: Path) -> None:
    for name in ("a.yaml", ".b.yaml", "..data/c.yaml", ".git/d.json", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(CLUSTER)
    assert [each.file for each in read_manifests([tmp_path])] == [str(tmp_path / "a.yaml")]


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
    """Return a folder that other users may read."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_folder_that_cannot_be_read_is_no_success_of_any_command(
    open_folder: Path, said: Said
) -> None:
    (closed := open_folder / "a-closed").mkdir()
    (open_folder / "cluster.yaml").write_text(CLUSTER)
    with unreadable(closed):
        heard = {
            said("validate", open_folder),
            said("preview", "-f", open_folder),
            said("diff", "-f", open_folder),
            said("dashboard", "--state", open_folder),
            said("serve", "--standalone", "--state", open_folder),
        }
    (error,) = heard
    assert error.startswith(f"{closed}: the folder cannot be read: Permission denied: make it")


def test_a_path_below_a_folder_that_cannot_be_read_is_a_message(
    open_folder: Path, said: Said
) -> None:
    (closed := open_folder / "closed").mkdir()
    with unreadable(closed):
        error = said("validate", closed / "below" / "cluster.yaml")
    assert error.startswith(f"{closed}/below/cluster.yaml: Permission denied")


def test_mutate_reads_standard_input_for_a_dash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = io.TextIOWrapper(io.BytesIO(CLUSTER.encode()))
    monkeypatch.setattr(sys, "stdin", given)
    assert main(["preview", "-f", "-"]) == 0
    assert "replica 0, host 0" in capsys.readouterr().out


def test_an_error_in_standard_input_has_its_line(
    monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    given = io.TextIOWrapper(io.BytesIO(b"a: 1\na: 2\n"))
    monkeypatch.setattr(sys, "stdin", given)
    assert said("preview", "-f", "-").startswith("<stdin>:2: the key 'a'")
