"""Versions as numbers: whatever the API server says, comparing goes on."""

import pytest

from webhook.follow.wire import number


@pytest.mark.parametrize(("version", "value"), [("", 0), ("0", 0), ("17", 17), ("18446744073709551615", 2**64 - 1)])
def test_a_version_is_its_number(version: str, value: int) -> None:
    assert number(version) == value


@pytest.mark.parametrize("version", ["x", "-1", "1.5", "٣", "9" * 21, "9" * 5000])
def test_what_is_no_version_is_none(version: str) -> None:
    assert number(version) == 0
