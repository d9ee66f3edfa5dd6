"""The values of YAML scalars, as Kubernetes parses them."""

import re
from typing import Final

PLAIN: Final = "!plain"
"""The tag of a scalar without quotes and without a tag, whose type depends on its text."""

_TAGS: Final = (
    PLAIN,
    *(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float")),
)
_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_LONGEST_NUMBER: Final = 64
_INTEGER: Final = re.compile(
    r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*|0)", re.ASCII
)
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)


def _cases(*words: str) -> frozenset[str]:
    return frozenset(text for word in words for text in (word, word.title(), word.upper()))


_TRUE: Final = _cases("y", "yes", "true", "on")
_FALSE: Final = _cases("n", "no", "false", "off")


def scalar(tag: str, text: str) -> str | float | bool | None:
    """Return the value of a scalar in YAML 1.1: `yes` and `on` are booleans. Dates are strings."""
    if tag not in _TAGS:
        return text
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if len(text) <= _LONGEST_NUMBER and _INTEGER.fullmatch(text):
        return _integer(text)
    return float(text) if len(text) <= _LONGEST_NUMBER and _FLOAT.fullmatch(text) else text


def _integer(text: str) -> int | str:
    digits = text.replace("_", "").lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    try:
        value = int(digits, 8 if octal else 0)
    except ValueError:
        return text
    return -value if text[0] == "-" else value
