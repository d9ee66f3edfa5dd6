"""The `preStop` command, with a fake raylet; `make drain` runs it with a real one."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from webhook.api import names
from webhook.mutation.pod_lifecycle import HOOK

Start = Callable[[dict[str, str], float], None]

SECONDS = 30
GCS = """
import json, os
class GcsClient:
    def __init__(self, address):
        self.address = address
    def drain_node(self, node, reason, message, deadline):
        with open(os.environ["ASKED"], "a") as requests:
            requests.write(json.dumps([self.address, node, reason, deadline]) + "\\n")
        return True, ""
"""


class Container:
    """A container with a Ray: its pod's name, and what the Ray was asked."""

    def __init__(self, folder: Path, constants: str) -> None:
        self.asked = folder / "asked"
        for file, text in (
            ("__init__.py", ""),
            ("_raylet.py", GCS),
            ("_private/__init__.py", ""),
            ("_private/ray_constants.py", constants),
        ):
            path = folder / "ray" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.environment = {
            **os.environ, "PYTHONPATH": str(folder), "ASKED": str(self.asked),
            "RAY_ADDRESS": "head:6379",
            "RAY_CLOUD_INSTANCE_ID": f"pod-{os.getpid()}-{folder.name}"}  # fmt: skip

    def hook(self) -> float:
        begun = time.monotonic()
        command = [sys.executable, "-c", HOOK, str(SECONDS)]
        subprocess.run(command, env=self.environment, check=True, timeout=2 * SECONDS)
        return time.monotonic() - begun


@pytest.fixture
def raylet() -> Iterator[Start]:
    """Start a process that looks like a raylet and ends after some seconds."""

    def start(environment: dict[str, str], seconds: float) -> None:
        code = f"import time; time.sleep({seconds})"
        process = subprocess.Popen(
            ["/ray/raylet", "-c", code, "--node_id=abc123"],
            executable=sys.executable,
            env=environment,
        )
        running.append(process)

    running: list[subprocess.Popen[bytes]] = []
    yield start
    for process in running:
        process.kill()
        process.wait()


def test_it_drains_its_own_raylet_and_waits_for_the_end(tmp_path: Path, raylet: Start) -> None:
    container = Container(tmp_path, "")
    raylet({**container.environment, "RAY_CLOUD_INSTANCE_ID": "another pod of the node"}, 60)
    raylet(container.environment, 10)
    before = time.time()
    took = container.hook()
    ((address, node, reason, deadline),) = map(json.loads, container.asked.read_text().splitlines())
    assert (address, node, reason) == ("head:6379", "abc123", 2)
    assert before + SECONDS <= deadline / 1000 <= time.time() + SECONDS
    assert took < SECONDS


def test_it_leaves_a_ray_that_drains_by_itself_alone(tmp_path: Path, raylet: Start) -> None:
    container = Container(tmp_path, f"{names.RAY_DRAIN_TIMEOUT} = 30.0")
    raylet(container.environment, 60)
    assert container.hook() < SECONDS
    assert not container.asked.exists()


def test_it_ends_where_no_raylet_runs(tmp_path: Path) -> None:
    container = Container(tmp_path, "")
    assert container.hook() < SECONDS
    assert not container.asked.exists()
