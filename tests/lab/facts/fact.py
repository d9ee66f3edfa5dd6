"""A fact copied from another project: our value, their value, and its location in our code."""

import importlib
from dataclasses import dataclass
from typing import Any, Final

MISSING: Final = "nothing"
"""Stands for what is not there."""


@dataclass(frozen=True)
class Fact:
    """`place` is `module:name` of ours; `ahead` says why a difference is expected."""

    place: str
    what: str
    ours: Any
    theirs: Any
    ahead: str = ""

    @property
    def differs(self) -> bool:
        """Whether ours is not theirs."""
        return bool(self.ours != self.theirs)

    def __str__(self) -> str:
        here, there = self.ours, self.theirs
        if isinstance(here, set):
            here, there = sorted(here - there), sorted(there - here)
        return f"{self.place}: {self.what}: here {here!r}, there {there!r}"


def value(place: str) -> Any:  # noqa: ANN401 - of any type
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
