"""The demonstration: its facts, and its length."""

import pytest

from tests.demo.__main__ import COLUMNS, FACTS, main


def test_the_demo_shows_three_facts_on_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    lines = capsys.readouterr().out.splitlines()
    shown = [line for line in lines if line.startswith(FACTS)]
    assert len(shown) == len(FACTS)
    assert len(lines) <= 60
    assert max(map(len, lines)) <= COLUMNS
