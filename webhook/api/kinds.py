"""Kinds of objects that this program reads, by API group and version."""

from typing import Final

from webhook.api import names

POD_KIND: Final = "Pod"


def is_ray(group: str, version: str, kind: str) -> bool:
    """Return whether an object is a Ray object of a supported version."""
    return group == names.RAY_GROUP and version in names.RAY_VERSIONS and kind in names.RAY_KINDS


def known_kind(api_version: object, kind: object) -> str:
    """Return the kind of a Ray object or a Pod; empty for anything else."""
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return ""
    if (api_version, kind) == ("v1", POD_KIND):
        return kind
    group, _, version = api_version.partition("/")
    return kind if is_ray(group, version, kind) else ""
