"""Timestamps of the API server, some of which users can write."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.api.times import seconds_of, text_of


@pytest.mark.parametrize(("text", "seconds"), [
    ("1970-01-02T00:00:01Z", 86_401.0),
    ("2026-11-21T10:00:00.250000Z", 1_795_255_200.25),
    ("2026-11-21T10:00:00.250000000Z", 1_795_255_200.25),
    ("0001-01-01T00:00:00Z", -62_135_596_800.0),
])  # fmt: skip
def test_an_instant_is_so_many_seconds_after_the_epoch(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text", [None, "", "now", "0000-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-1-1T00:00Z"]
)
def test_anything_else_is_none(text: str | None) -> None:
    assert seconds_of(text) is None


@given(st.integers(0, 253402300799))
def test_an_instant_is_written_as_it_is_read(seconds: int) -> None:
    text = text_of(seconds)
    assert seconds_of(text) == seconds
    assert text == f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize("seconds", [None, -1.0, 253402300800.0, 1e300, float("nan")])
def test_what_no_instant_has_is_not_written(seconds: float | None) -> None:
    assert text_of(seconds) is None
