"""The demonstration, its facts and its length; the readable answer to the review of `make run`."""

import base64
import json

import pytest

from tests.demo.__main__ import COLUMNS, FACTS, main
from tests.demo.answer import readable


def test_the_demo_shows_three_facts_on_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    lines = capsys.readouterr().out.splitlines()
    shown = [line for line in lines if line.startswith(FACTS)]
    assert len(shown) == len(FACTS)
    assert len(lines) <= 60
    assert max(map(len, lines)) <= COLUMNS


def test_a_patch_is_shown_an_operation_a_line() -> None:
    patch = [{"op": "add", "path": "/spec/hostname", "value": "slices-0-0"}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    response = {"allowed": True, "patch": encoded, "warnings": ["look"]}
    assert readable(json.dumps({"response": response})).splitlines() == [
        "allowed; operations of the patch: 1",
        'add /spec/hostname "slices-0-0"',
        "warning: look",
    ]


def test_a_denial_is_its_message() -> None:
    response = {"allowed": False, "status": {"message": "no"}}
    assert readable(json.dumps({"response": response})) == "denied: no\n"
