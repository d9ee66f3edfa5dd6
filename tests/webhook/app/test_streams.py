"""The output of a process on both streams, which form one log in a container."""

import json
from pathlib import Path

import pytest

from tests.webhook.httpserver.test_listeners import listening


@pytest.mark.parametrize(
    ("command", "form"), [("serve", "json"), ("controller", "json"), ("controller", "text")]
)
def test_each_line_has_the_form_of_the_log(command: str, form: str, tmp_path: Path) -> None:
    with listening(command, tmp_path, f"--log.format={form}") as addresses:
        assert addresses
    if form == "json":
        events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        assert "listening" in {each["event"] for each in events}
        assert {each["process"] for each in events} == {command}
