"""Text of tenants reaches a terminal without control characters, from every command."""

import re
from pathlib import Path

import pytest

from tests.harness.running import At, Write
from tests.harness.scenes import Scene, llama
from webhook import cli

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eforged\nhost-missing"
OBEYED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HOST = "llama-tpu-worker-0-3"
DOWN = {
    "phase": "Pending",
    "conditions": [{"type": "Ready", "status": "False"}],
    "containerStatuses": [
        {
            "name": "ray-worker",
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": EVIL}},
        }
    ],
}


def check(out: str) -> None:
    """Fail unless an output has the text of EVIL, without its effect on a terminal."""
    assert "owned" in out
    assert OBEYED.search(out) is None
    assert "\nhost-missing" not in out


@pytest.mark.parametrize(("scene", "arguments"), [
    (Scene().with_env(HOST, TPU_WORKER_ID=EVIL), ("status",)),
    (Scene().with_env(HOST, TPU_WORKER_ID=EVIL), ("explain", "pod", HOST)),
    (Scene().changed(HOST, status=DOWN), ("status",)),
])  # fmt: skip
def test_values_and_messages_are_text(scene: Scene, arguments: tuple[str, ...], at: At) -> None:
    check(at(scene, *arguments).out)


def test_a_changed_field_is_text(at: At, write: Write) -> None:
    new = llama().build()
    new["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["image"] = EVIL
    live = {"/apis/ray.io/v1/namespaces/team/rayclusters/llama": llama().build()}
    check(at(Scene(), "diff", write(new), change=lambda server: server.answers.update(live)).out)


def test_all_text_for_a_console_is_made_where_it_is_cleaned() -> None:
    for path in Path(cli.__file__).parent.glob("*.py"):
        taken = re.findall(
            r"^from rich(?:\.text)? import .*[Tt]ext", path.read_text(), re.MULTILINE
        )
        assert bool(taken) == (path.name == "terminal.py"), path
