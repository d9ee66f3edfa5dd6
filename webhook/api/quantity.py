"""Kubernetes quantities (`4`, `500m`, `1.5Gi`, `2e3`) and whole numbers, parsed strictly."""

import re
from decimal import Decimal
from typing import Final

# The grammar in the comment of the type `Quantity`:
# https://github.com/kubernetes/apimachinery/blob/master/pkg/api/resource/quantity.go
_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?:(?P<suffix>Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])|[eE](?P<exponent>[+-]?\d+))?",
    re.ASCII,
)
_SCALE: Final = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9),
    "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30),
    "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
_LONGEST: Final = 64
"""Characters. No real amount is longer, and the limit keeps exponents affordable."""


def parse_quantity(text: str | float) -> Decimal:
    """Return the amount in base units (cores, bytes, devices).

    Raises ValueError if the API server would reject the text as a quantity.
    """
    text = str(text)
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        msg = (
            f"{text[:_LONGEST]!r} is not a Kubernetes quantity: write a number with an optional "
            "suffix, such as 4, 500m or 8Gi"
        )
        raise ValueError(msg)
    number = Decimal(match["number"])
    if match["exponent"]:
        exponent = int(match["exponent"])
        # The API server caps amounts at 2^63; this limit only bounds the cost of the arithmetic.
        if abs(exponent) > 100:  # noqa: PLR2004
            msg = (
                f"{text!r} has an exponent out of range: write the amount with a suffix such as Gi"
            )
            raise ValueError(msg)
        return number.scaleb(exponent)
    return number * _SCALE.get(match["suffix"] or "", Decimal(1))


def read_quantity(value: object) -> Decimal | None:
    """Return the amount in base units of a value of any type, or None if it is not an amount."""
    if not isinstance(value, str | int | float):
        return None
    try:
        return parse_quantity(value)
    except ValueError:
        return None


def parse_count(text: str | float) -> int:
    """Return a number of whole devices.

    Raises ValueError for a negative or fractional amount: extended resources are integers.
    """
    # Fast path of the common case.
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10:  # noqa: PLR2004
        return int(text)
    amount = parse_quantity(text)
    if amount < 0 or amount != amount.to_integral_value():
        msg = f"{text!r} is not a whole number of devices: write an integer such as 4"
        raise ValueError(msg)
    return int(amount)


def read_number(text: str, most: int) -> int | None:
    """Return the decimal number in the text of an annotation, at most `most`; None for any other
    text, including signs and leading zeros.
    """
    if (
        not (text.isascii() and text.isdigit())
        or len(text) > len(str(most))
        or (text[0] == "0" and text != "0")
    ):
        return None
    number = int(text)
    return number if number <= most else None
