"""Texts that are whole numbers, and texts that are not."""

import pytest

from webhook.api.quantity import read_number


@pytest.mark.parametrize("text", ["0", "7", "10", "120"])
def test_a_decimal_number_up_to_the_most_is_one(text: str) -> None:
    assert read_number(text, 120) == int(text)


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "00", "01", " 1", "1.0", "1e1", "0x1", "٣", "²", "121", "9" * 5000]
)
def test_no_other_text_is(text: str) -> None:
    assert read_number(text, 120) is None
