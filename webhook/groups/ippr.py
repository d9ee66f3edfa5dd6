"""The annotation `ray.io/ippr`: which groups Ray's autoscaler may resize in place, and their
limits.

https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
"""

import json
from typing import Any

import msgspec
from msgspec import Struct

Amount = str | int | float


class Maxima(Struct, rename="kebab", frozen=True, gc=False):
    """The limits of the pods of a group: Kubernetes quantities as written, or empty."""

    max_cpu: Amount | None = None
    max_memory: Amount | None = None


def parse_ippr(text: str) -> tuple[Any, str]:
    """Return the value of the annotation, and the problem of its JSON, or an empty text.

    Ray parses it with `json.loads`, so `NaN` and lone surrogates are accepted. Without a text,
    resizing is off.
    """
    if not text:
        return {}, ""
    try:
        return json.loads(text), ""
    except ValueError as error:
        return None, str(error)
    except RecursionError:
        return None, "nested too deeply"


def read_ippr(text: str) -> dict[str, Maxima]:
    """Return the limits of each listed group, with `headgroup` for the head; empty for an
    annotation that Ray rejects.
    """
    value, _ = parse_ippr(text)
    groups = value.get("groups") if isinstance(value, dict) else None
    if not isinstance(groups, dict):
        return {}
    try:
        return {name: _maxima(entry) for name, entry in groups.items()}
    except (msgspec.ValidationError, UnicodeError):
        return {}


def _maxima(entry: object) -> Maxima:
    """Return the limits of a group. Raises msgspec.ValidationError, UnicodeError."""
    if isinstance(entry, dict):  # msgspec cannot compare keys that are not valid Unicode
        entry = {key: entry[key] for key in ("max-cpu", "max-memory") if key in entry}
    return msgspec.convert(entry, Maxima)
