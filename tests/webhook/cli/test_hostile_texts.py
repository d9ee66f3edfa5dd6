"""One object whose texts try everything, through every command and every format of its output."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.running import At, Ended, Run, Write
from tests.harness.scenes import Scene, llama, merged
from webhook import cli
from webhook.manifest.reader import as_yaml

HOSTILE = (
    "x\n::add-mask::y\r\n##[error]z\n  ::stop-commands::t"
    "\x1b[31m\x1b]0;t\x07\x00\x7f\x85\x9b31m\u2028\u202e\u2066 "
    + "word " * 60
    + "::set-output name=a::b "
    + "word " * 60
)
NEVER = [chr(code) for code in range(32) if code != 10] + [
    *"\x7f\x85\x9b\u2028\u2029\u202e\u2066\u200f"
]
HOST = "llama-tpu-worker-0-0"
COMMANDS = ("::", "##[")
ANNOTATION = ("::error file=", "::warning file=")
"""How lines of `validate -o github` begin."""


def hostile(document: Any) -> Any:  # noqa: ANN401 - any object
    """Return an object with hostile texts wherever a user may write them."""
    document["metadata"].setdefault("annotations", {}).update(
        {HOSTILE: HOSTILE, "::add-mask::k": "v", "admission.ray.io/profiles": HOSTILE}
    )
    document["metadata"].setdefault("labels", {})[HOSTILE] = HOSTILE
    for group in document["spec"]["workerGroupSpecs"]:
        group["rayStartParams"] = {HOSTILE: HOSTILE, "::add-mask::p": "v"}
        for container in group["template"]["spec"]["containers"]:
            container["env"] = [
                {"name": HOSTILE, "value": HOSTILE},
                {"name": "TPU_NAME", "value": HOSTILE},
            ]
            container["image"] = HOSTILE
    return document


def check(ended: Ended, *, github: bool = False) -> None:
    assert ended.status in (0, 1, 2)
    for output in (ended.out, ended.err):
        assert not [character for character in NEVER if character in output]
        for line in output.splitlines():
            plain = line.lstrip()
            allowed = github and line.startswith(ANNOTATION)
            assert allowed or not plain.startswith(COMMANDS), line


@pytest.mark.parametrize("output", ["text", "json", "github", "sarif"])
def test_validate(run: Run, write: Write, output: str) -> None:
    document = hostile(llama().build())
    document["spec"]["workerGroupSpecs"][0]["groupName"] = HOSTILE
    ended = run("validate", write(json.dumps(document), name="a.json"), "-o", output)
    assert "add-mask" in ended.out
    check(ended, github=output == "github")


@pytest.mark.parametrize("arguments", [
    (), ("--explain",), ("--summary",), ("-o", "json"), ("-o", "yaml"), ("-o", "patch"),
], ids=" ".join)  # fmt: skip
@pytest.mark.parametrize("refused", [False, True])
def test_preview(run: Run, write: Write, arguments: tuple[str, ...], refused: bool) -> None:
    document = hostile(llama().build())
    document["metadata"]["name"] = HOSTILE if refused else document["metadata"]["name"]
    check(run("preview", write(json.dumps(document), name="a.json"), *arguments))


def scene() -> Scene:
    found = Scene(llama())
    pod = max(found.pods)
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "x", "message": HOSTILE}]
    status = {"phase": HOSTILE, "reason": HOSTILE, "message": HOSTILE, "conditions": conditions}
    found.changed(pod, metadata={"annotations": {HOSTILE: HOSTILE}}, status=status)
    failure = {"type": "ReplicaFailure", "status": "True", "message": HOSTILE}
    found.cluster["status"] = {"conditions": [failure]}
    return found


def with_variables() -> Scene:
    found = scene()
    for name in (max(found.pods), HOST):
        found.with_env(name, TPU_WORKER_ID=HOSTILE)
    return found


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml", "state"])
def test_status(at: At, output: str) -> None:
    ended = at(with_variables(), "status", "-n", "team", "-o", output)
    assert output not in ("table", "wide") or "worker-id-differs" in ended.out
    check(ended)


def test_explain(at: At) -> None:
    found = with_variables()
    check(at(found, "explain", "pod", max(found.pods)))


@pytest.mark.parametrize("output", [(), ("-o", "json")])
def test_check(at: At, output: tuple[str, ...]) -> None:
    check(at(scene(), "check", *output))


@pytest.mark.parametrize("output", [(), ("-o", "json")])
def test_diff(at: At, write: Write, output: tuple[str, ...]) -> None:
    live = merged(llama().build(), {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}})
    answers = {"/apis/ray.io/v1/namespaces/team/rayclusters/llama": live}
    given = write(json.dumps(hostile(llama().build())), name="a.json")
    command = partial(at, Scene(), "diff", given, *output)
    check(command(change=lambda server: server.answers.update(answers)))


@pytest.mark.parametrize(
    "text", [" ::add-mask::x" * 40, "::add-mask::x", "a\n::add-mask::x", "##[x"]
)
def test_no_line_of_yaml_begins_with_a_part_of_a_text(text: str) -> None:
    for width in range(40):
        content = {"message": f"{'w' * width}{text}", text: [text]}
        output = as_yaml([content])
        assert yaml.safe_load(output) == content
        assert not [line for line in output.splitlines() if line.lstrip().startswith(COMMANDS)]


def test_all_text_for_a_console_is_made_where_it_is_cleaned() -> None:
    for path in Path(cli.__file__).parent.glob("*.py"):
        taken = re.findall(
            r"^from rich(?:\.text)? import .*[Tt]ext", path.read_text(), re.MULTILINE
        )
        assert bool(taken) == (path.name == "terminal.py"), path
