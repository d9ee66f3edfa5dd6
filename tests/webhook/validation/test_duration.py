"""Durations are parsed as by Go."""

import pytest

from webhook.validation.schedule import parse_duration


@pytest.mark.parametrize(("text", "nanoseconds"), [
    ("0", 0), ("-0", 0), ("5m", 300 * 10**9), ("1h30m", 5400 * 10**9), ("1.5s", 1_500_000_000),
    (".5s", 500_000_000), ("1.s", 10**9), ("-1s", -(10**9)), ("+1us", 1000), ("1µs", 1000),
    ("0.0000000001s", 0), ("9223372036854775807ns", 2**63 - 1),
    ("-9223372036854775808ns", -(2**63)),
    ("9223372036854775808ns", None), ("2562048h", None), ("", None), ("1", None), (".s", None),
    ("1 s", None), ("1d", None), ("+", None), ("--1s", None), ("1h0", None),
])  # fmt: skip
def test_go_reads_it_so(text: str, nanoseconds: int | None) -> None:
    assert parse_duration(text) == nanoseconds
