"""Names of time zones, from the system or the package `tzdata`."""

from collections.abc import Container
from functools import cache
from importlib import import_module
from typing import Final


class _TimeZones(Container[str]):
    """The names, loaded on first use: there are about 600."""

    def __contains__(self, name: object) -> bool:
        return name in _time_zones()


@cache
def _time_zones() -> frozenset[str]:
    return frozenset(import_module("zoneinfo").available_timezones())


TIME_ZONES: Final[Container[str]] = _TimeZones()
"""Allowed time zones of a RayCronJob."""
