"""The GitHub Action: its step validates the files of a repository."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
VALID = "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: a}\nspec:\n"
HEAD = "  headGroupSpec: {template: {spec: {containers: [{name: head, image: ray:2.54.0}]}}}\n"
GROUP = """  workerGroupSpecs:
    - groupName: a
      numOfHosts: 0
      template: {spec: {containers: [{name: worker, image: ray:2.54.0}]}}
"""


def run_step(folder: Path, paths: str) -> subprocess.CompletedProcess[str]:
    """Run the step of the action in a folder, with a `pipx` that runs this program."""
    (step,) = ACTION["runs"]["steps"]
    fake = folder / "bin"
    fake.mkdir()
    program = Path(sys.executable).with_name("ray-webhook")
    (fake / "pipx").write_text(f'#!/bin/sh\nshift 4\nexec "{program}" "$@"\n')
    (fake / "pipx").chmod(0o755)
    environment = {**os.environ, "PATH": f"{fake}:{os.environ['PATH']}", "PATHS": paths}
    return subprocess.run(
        ["bash", "-c", step["run"]], cwd=folder, env=environment | {"PACKAGE": "ray-webhook"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(("group", "status"), [("", 0), (GROUP, 1)])
def test_the_step_writes_annotations_and_fails_for_a_denial(
    tmp_path: Path, group: str, status: int
) -> None:
    (tmp_path / "cluster.yaml").write_text(VALID + HEAD + group)
    done = run_step(tmp_path, "cluster.yaml")
    assert done.returncode == status, done.stderr
    assert ("::error file=cluster.yaml" in done.stdout) == bool(status)


def test_the_action_is_short_and_its_inputs_are_variables() -> None:
    assert len((ROOT / "action.yml").read_text().splitlines()) <= 20
    (step,) = ACTION["runs"]["steps"]
    used = {name for text in step["env"].values() for name in re.findall(r"inputs\.(\w+)", text)}
    assert used == ACTION["inputs"].keys()
    assert "${{" not in step["run"]
