"""Text of tenants reaches a terminal without control characters, from every command."""

import re
from pathlib import Path

import pytest

from tests.cli.test_diff import (
    diff,
    group,
    stored,
    written,
)
from tests.cli.test_status import status
from tests.diagnostics.scenes import Scene
from tests.diagnostics.served import serving
from webhook import cli
from webhook.cli.main import main

Capture = pytest.CaptureFixture[str]
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eforged\nhost-missing"
OBEYED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def shown(capsys: Capture) -> str:
    """Return what was printed, which holds what EVIL says and nothing that it does."""
    out = capsys.readouterr().out
    assert "owned" in out
    assert OBEYED.search(out) is None
    assert "\nhost-missing" not in out
    return out


def test_a_variable_that_is_shown_is_text(tmp_path: Path, capsys: Capture) -> None:
    scene = Scene().told("llama-tpu-worker-0-3", TPU_WORKER_ID=EVIL)
    assert status(scene, tmp_path) == 1
    shown(capsys)
    with serving(scene, tmp_path) as (_, kubeconfig):
        assert (
            main(["explain", "pod", "llama-tpu-worker-0-3", "--kubeconfig", str(kubeconfig)]) == 0
        )
    shown(capsys)


def test_the_message_of_a_container_that_waits_is_text(tmp_path: Path, capsys: Capture) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": EVIL}
    state = {"name": "ray-worker", "state": {"waiting": waiting}}
    down = [{"type": "Ready", "status": "False"}]
    scene = Scene().changed(
        "llama-tpu-worker-0-3",
        status={"phase": "Pending", "conditions": down, "containerStatuses": [state]},
    )
    assert status(scene, tmp_path) == 1
    shown(capsys)


def test_a_field_that_changes_is_text(tmp_path: Path, capsys: Capture) -> None:
    new = written()
    group(new)["template"]["spec"]["containers"][0]["image"] = EVIL
    assert diff(tmp_path, stored(), new) == 1
    shown(capsys)


def test_all_text_for_a_console_is_made_where_it_is_cleaned() -> None:
    for path in Path(cli.__file__).parent.glob("*.py"):
        taken = re.findall(
            r"^from rich(?:\.text)? import .*[Tt]ext", path.read_text(), re.MULTILINE
        )
        assert bool(taken) == (path.name == "terminal.py"), path
