"""Untrusted text is made safe to print."""

import pytest

from webhook.api.formats import many_lines, one_line

BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"


@pytest.mark.parametrize(
    "character", [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *BIDI, "\u2028", "\u2029"]
)
def test_what_a_terminal_would_obey_becomes_a_space(character: str) -> None:
    assert one_line(f"a{character}b") == "a b"


def test_what_people_write_stays() -> None:
    assert one_line("■ Größe 数 → ok") == "■ Größe 数 → ok"


def test_the_lines_of_a_text_stay_lines() -> None:
    assert many_lines("a\x1b[2J\nb\r") == "a [2J\nb "
