"""Checks of single values in pod templates: each returns advice, or an empty string."""

import re
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from typing import Any, Final

from webhook.api.formats import (
    DNS_LABEL_MAX,
    is_dns_label,
    is_dns_subdomain,
    list_choices,
    nearest,
)
from webhook.api.review import DUPLICATE
from webhook.validation.crd import INT32, INT64
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.pods.inspection import Check, format_value, wrong

PORT_MAX: Final = 65535
INT32_MAX: Final = INT32[1]
FILE_MODE_MAX: Final = 0o777
SUBDOMAIN_ADVICE: Final = "use lower-case letters, digits, '-' and '.'"
DNS_LABEL_ADVICE: Final = f"use up to {DNS_LABEL_MAX} lower-case letters, digits and '-'"
KEY_ADVICE: Final = "write name or prefix/name"
VALUE_ADVICE: Final = "use letters, digits, '-', '_' and '.'"


def one_of(*allowed: str, empty: bool = False) -> Check:
    """Return a check that a string is among the allowed ones; `empty` is whether the API server
    sets a default for an empty string.
    """
    allowed_values = frozenset((*allowed, "")) if empty else frozenset(allowed)

    def check(value: Any) -> str:  # noqa: ANN401 - JSON
        if value in allowed_values if type(value) is str else True:
            return ""
        near = next((option for option in allowed if option.lower() == value.lower()), "")
        return f"write {near or list_choices(allowed)}"

    return check


def within(low: int, high: int, *, zero: bool = False, wide: bool = False) -> Check:
    """Return a check that a number is in a range; with `zero`, 0 means unset.

    A number that exceeds its field, of 32 bits unless `wide`, is reported by another rule.
    """
    field_low, field_high = INT64 if wide else INT32
    advice = f"write {low} or more" if high == field_high else f"write {low} to {high}"

    def check(value: Any) -> str:  # noqa: ANN401 - JSON
        if type(value) not in (int, float) or low <= value <= high or (zero and not value):
            return ""
        return advice if field_low <= value <= field_high else ""

    return check


def string(sound: Callable[[str], bool], advice: str, *, empty: bool = True) -> Check:
    """Return a check of strings by a predicate; with `empty`, an empty string means unset."""

    def check(value: Any) -> str:  # noqa: ANN401 - JSON
        if type(value) is not str or (not value and empty) or sound(value):
            return ""
        return advice if "$" not in value else f"{advice}; replace the placeholder in it"

    return check


def _format(pattern: str) -> Callable[[str], bool]:
    """Return a predicate of texts that match a pattern."""
    match = re.compile(pattern).fullmatch
    return lambda text: match(text) is not None


is_port_name: Final = _format(r"(?=.{1,15}\Z)(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")
is_variable_name: Final = _format(r"[ -<>-~]+")
"""Printable ASCII without `=`."""
is_data_key: Final = _format(r"(?!\.\.)(?!\.\Z)[-._a-zA-Z0-9]{1,253}")
"""A key of a ConfigMap or Secret."""


def is_address(text: str) -> bool:
    """Return whether a text is an IP address."""
    try:
        ip_address(_without_zeros(text))
    except ValueError:
        return False
    return "%" not in text


def _without_zeros(text: str) -> str:
    """Return an IPv4 address without leading zeros, which the API server reads as decimal."""
    parts = text.split(".")
    dotted = len(parts) == 4 and all(part.isascii() and part.isdigit() for part in parts)  # noqa: PLR2004
    return ".".join(str(int(part)) for part in parts) if dotted else text


def is_straight(path: str) -> bool:
    """Return whether a path has no element `..`."""
    return ".." not in path.split("/")


def descends(path: str) -> bool:
    """Return whether a path stays below its base directory."""
    return not path.startswith("/") and is_straight(path)


def is_local(path: str) -> bool:
    """Return whether a path is relative and does not begin with `..`."""
    return descends(path) and not path.startswith("..")


def port_or_name(value: Any) -> str:  # noqa: ANN401 - JSON
    """Check a port that may be given by its name."""
    if type(value) is str:
        return "" if is_port_name(value) else "write a port's number or name"
    return _port(value)


def check_names(
    listed: Field, noun: str, sound: Callable[[str], bool], advice: str
) -> Iterator[Fault]:
    """Yield the invalid and the duplicate names of the entries of a list."""
    names: set[str] = set()
    for entry in listed.entries():
        name = entry / "name"
        if not sound(name.text):
            yield wrong(name, advice)
        elif name.text in names:
            message = f"another {noun} is named {format_value(name.text)}: rename one of them"
            yield Fault(name, message, DUPLICATE)
        elif name.text:
            names.add(name.text)


def suggestion(text: str, known: Iterable[str], otherwise: str) -> str:
    """Return the advice to write the known name that is most similar to a text, if there is one."""
    near = nearest(text, known)
    return f"did you mean {near}?" if near else otherwise


dns_label = string(is_dns_label, DNS_LABEL_ADVICE)
subdomain = string(is_dns_subdomain, SUBDOMAIN_ADVICE)
required_subdomain = string(is_dns_subdomain, SUBDOMAIN_ADVICE, empty=False)
relative_path = string(descends, "write a relative path without '..'")
file_mode = within(0, FILE_MODE_MAX)
user_id = within(0, INT32_MAX, wide=True)
not_negative = within(0, INT32_MAX)
positive = within(1, INT64[1], wide=True)
_port = within(1, PORT_MAX)
