"""The annotation `ray.io/ippr`: which groups Ray's autoscaler may resize in place, and how far.

https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
"""

from typing import Final

import msgspec
from msgspec import Struct

Amount = str | int | float


class Maxima(Struct, rename="kebab", frozen=True, gc=False):
    """How far the pods of a group may grow: Kubernetes quantities as written, or nothing."""

    max_cpu: Amount | None = None
    max_memory: Amount | None = None


class _Annotation(Struct, frozen=True, gc=False):
    groups: dict[str, Maxima] = {}


_decode: Final = msgspec.json.Decoder(_Annotation).decode


def read_ippr(text: str) -> dict[str, Maxima]:
    """Return the maxima of each group that is listed, `headgroup` being the head; nothing for an
    annotation that Ray refuses.
    """
    try:
        return _decode(text).groups if text else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
