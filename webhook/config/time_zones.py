"""The names of time zones, as the system or the package `tzdata` has them."""

from collections.abc import Container
from functools import cache
from importlib import import_module
from typing import Final


class _TimeZones(Container[str]):
    """The names, looked up when the first one is asked for: there are some 600."""

    def __contains__(self, name: object) -> bool:
        return name in _time_zones()


@cache
def _time_zones() -> frozenset[str]:
    return frozenset(import_module("zoneinfo").available_timezones())


TIME_ZONES: Final[Container[str]] = _TimeZones()
"""What the time zone of a RayCronJob may be."""
