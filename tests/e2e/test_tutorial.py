"""The tutorial, run as written. Steps that need containers, an image or the Internet have a
substitute; a command without either fails.
"""

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import ROOT
from tests.e2e import build, needs
from tests.e2e.api import NODES
from tests.e2e.control_plane import ControlPlane
from tests.e2e.deployed import Deployed
from tests.e2e.kubelet import Kubelet
from tests.e2e.kuberay import Operator

pytestmark = pytest.mark.e2e

PAGE = ROOT / "docs" / "tutorial.md"
BLOCKS = re.findall(
    r"^```(sh|text|yaml|python)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
)
OURS = ".cache/tutorial/bin/ray-webhook"

KUBECTL = """#!{python}
import json, os, subprocess, sys
real, words = {real!r}, sys.argv[1:]
if words[0] != "exec":
    os.execv(real, [real, *words])
_, pod, _, container, separator, *command = words[1:]
assert separator == "--", words
found = json.loads(subprocess.check_output([real, "get", pod, "-o", "json"]))
(env,) = (each["env"] for each in found["spec"]["containers"] if each["name"] == container)
variables = {{each["name"]: each["value"] for each in env if "value" in each}}
os.execvpe(command[0], command, {{"PATH": os.environ["PATH"], **variables}})
"""
"""kubectl, whose `exec` runs here, with what is stored of the environment of the container."""


UNNEEDED = ("docker build", "kind load", "kind delete", "python3 -m", ".cache/tutorial/bin/pip")
"""Beginnings of commands that need nothing here."""


class Reader:
    """Who follows the page: a shell, and what stands in for the rest."""

    def __init__(self, plane: ControlPlane, stack: ExitStack) -> None:
        self._plane = plane
        self._stack = stack
        folder = plane.folder / "path"
        folder.mkdir()
        kubectl = folder / "kubectl"
        real = str(build.binary("kubectl"))
        kubectl.write_text(KUBECTL.format(python=sys.executable, real=real))
        kubectl.chmod(0o755)
        (folder / "helm").symlink_to(build.binary("helm"))
        (folder / "python").symlink_to(sys.executable)
        (folder / "ray-webhook").symlink_to(Path(sys.executable).with_name("ray-webhook"))
        self._environment = {**plane.environment, "PATH": f"{folder}:{os.environ['PATH']}"}
        self._stand_ins = {
            "kind create cluster": self._has_a_node,
            "helm install kuberay-operator": self._has_kuberay,
        }

    def follow(self, command: str) -> str:
        if command.startswith(UNNEEDED):
            return ""
        for beginning, stand_in in self._stand_ins.items():
            if command.startswith(beginning):
                stand_in()
                return ""
        written = command.replace(OURS, "ray-webhook")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", written], cwd=ROOT, env=self._environment,
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        if command.startswith("helm install ray-webhook"):
            self._stack.enter_context(Deployed(self._plane))
        return done.stdout

    def _has_a_node(self) -> None:
        node = {"metadata": {"name": "kind-control-plane"}}
        self._plane.api.create(NODES, node)

    def _has_kuberay(self) -> None:
        self._stack.enter_context(Operator(self._plane))
        self._stack.enter_context(Kubelet(self._plane.api, "default"))


def commands(block: str) -> list[str]:
    return block.replace("\\\n", " ").splitlines()


def shown_after(number: int) -> str:
    kind, text = BLOCKS[number + 1] if number + 1 < len(BLOCKS) else ("", "")
    return text if kind == "text" else ""


def test_the_tutorial_works_as_written(plane: ControlPlane) -> None:
    needs.MULTI_HOST_INDEXING.ask()
    with ExitStack() as stack:
        reader = Reader(plane, stack)
        for number, (kind, block) in enumerate(BLOCKS):
            if kind == "sh":
                printed = "".join(reader.follow(command) for command in commands(block))
                for line in shown_after(number).splitlines():
                    assert line in printed.splitlines()
                if "check --wait" in block:
                    assert not re.search(r"^\s*[✗?]", printed, re.MULTILINE), printed


@pytest.mark.parametrize(("kind", "file"), [("yaml", "ranks.yaml"), ("python", "rank.py")])
def test_what_the_page_shows_of_a_file_is_in_it(kind: str, file: str) -> None:
    (shown,) = (text for each, text in BLOCKS if each == kind)
    assert shown in (PAGE.with_suffix("") / file).read_text()
