"""Quantities are parsed exactly as the API server parses them; devices are whole numbers."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.api.namespace_limits import thousandth
from webhook.api.quantity import parse_count, parse_quantity, read_number

READABLE = {
    "0": "0", "4": "4", "+4": "4", "-4": "-4", "4.": "4", ".5": "0.5", "0.1": "0.1",
    "1.5Gi": "1610612736", "500m": "0.5", "100n": "0.0000001", "100u": "0.0001", "2k": "2000",
    "2Ki": "2048", "3M": "3000000", "3Mi": "3145728", "1T": "1e12", "1P": "1e15",
    "16Ti": "17592186044416", "1E": "1000000000000000000", "1Ei": "1152921504606846976",
    "1E3": "1000", "1e3": "1000", "1e-3": "0.001", "5e+2": "500",
}  # fmt: skip
UNREADABLE = [
    "", " ", "4 ", " 4", "four", "4 Gi",
    "4gi", "4GI", "4K", "4KI", "4B", "4GB", "1e", "1e+", "1e3Gi", "1Gie3", "1.5.2", "--4", "+-4",
    ".", "-", "+", "Gi", "m", "1,5", "0x10", "1_000", "\u0664", "4\n", "1e999", "1e-999", "9" * 65,
    "NaN", "inf", "1kk", "1mm",
]  # fmt: skip


@pytest.mark.parametrize(("text", "amount"), READABLE.items())
def test_an_amount_is_read_exactly(text: str, amount: str) -> None:
    assert parse_quantity(text) == Decimal(amount)


@pytest.mark.parametrize("text", [*READABLE, "12", "1500m", "7Ki", "7Mi", "7Gi", "7Ti"])
def test_an_amount_is_rounded_up_to_thousandths(text: str) -> None:
    assert thousandth(text) == math.ceil(parse_quantity(text) * 1000)


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_the_api_server_would_not_accept_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a Kubernetes quantity|exponent out of range"):
        parse_quantity(text)


@pytest.mark.parametrize(("amount", "count"), [
    ("4", 4), (4, 4), (4.0, 4), ("4.0", 4), ("4000m", 4), ("1k", 1000), ("0", 0), ("4e0", 4),
])  # fmt: skip
def test_whole_devices_count_however_they_are_written(amount: str | float, count: int) -> None:
    assert parse_count(amount) == count


@pytest.mark.parametrize(
    "amount", ["-1", -1, "0.5", 0.5, "500m", "1.5", "four", "", "-0.1", "\u00b2", "\u0664"]
)
def test_a_part_of_a_device_is_refused(amount: str | float) -> None:
    with pytest.raises(ValueError, match=r"whole number of devices|not a Kubernetes quantity"):
        parse_count(amount)


@given(
    st.decimals(min_value=0, max_value=10**9, places=3),
    st.sampled_from(["m", "k", "Ki", "M", "Mi", "G", "Gi"]),
)
def test_a_suffix_scales_and_nothing_is_rounded(number: Decimal, suffix: str) -> None:
    assert parse_quantity(f"{number}{suffix}") / parse_quantity(f"1{suffix}") == number


@given(st.text(max_size=12))
def test_any_text_is_an_amount_or_a_value_error(text: str) -> None:
    try:
        amount = parse_quantity(text)
    except ValueError:
        return
    assert amount.is_finite()


@pytest.mark.parametrize(("text", "number"), [
    ("0", 0), ("7", 7), ("10", 10), ("120", 120),
    *((text, None) for text in ("", "-1", "+1", "00", "01", " 1", "1.0", "1e1", "0x1", "121")),
    *((text, None) for text in ("٣", "²", "9" * 5000)),
])  # fmt: skip
def test_a_decimal_number_up_to_the_most_is_one(text: str, number: int | None) -> None:
    assert read_number(text, 120) == number
