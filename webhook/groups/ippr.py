"""The annotation `ray.io/ippr`: which groups Ray's autoscaler may resize in place, and how far.

https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
"""

import json
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

Amount = str | int | float


class Maxima(Struct, rename="kebab", frozen=True, gc=False):
    """How far the pods of a group may grow: Kubernetes quantities as written, or nothing."""

    max_cpu: Amount | None = None
    max_memory: Amount | None = None


@lru_cache(maxsize=64)
def parse_ippr(text: str) -> tuple[Any, str]:
    """Return the value of the annotation, and what is wrong with its JSON, or nothing.

    Ray reads it by `json.loads`, so `NaN` and lone surrogates are JSON here too. Without a text
    resizing is off. The value is shared: it is not to be changed.
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
    """Return the maxima of each group that is listed, `headgroup` being the head; nothing for an
    annotation that Ray refuses.
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
    """Return the maxima of a group. Raises msgspec.ValidationError, UnicodeError."""
    if isinstance(entry, dict):  # msgspec cannot compare a key that is no Unicode
        entry = {key: entry[key] for key in ("max-cpu", "max-memory") if key in entry}
    return msgspec.convert(entry, Maxima)
