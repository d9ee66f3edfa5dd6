"""A rule: a name, a level, and a small function that yields faults."""

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from msgspec import Struct

from webhook.validation.finding import (
    ALWAYS,
    DENY,
    WARN,
    Fault,
    KubeRay,
    Level,
)

T = TypeVar("T")

Check = Callable[[T], Iterable[Fault]]


KUBERAY: Final = "KubeRay"
API_SERVER: Final = "API server"
RAY: Final = "Ray"
NOBODY: Final = "no one else"


class Rule(Struct, Generic[T], frozen=True):
    """A rule over views of type T. Its function's docstring is its documentation: what it catches,
    why, and the source. KubeRay makes the check since a release; before, it is left out.
    """

    id: str
    level: Level
    check: Check[T]
    since: KubeRay = ALWAYS
    by: str = NOBODY
    """The program that refuses the same later, in the object or in what is made of it."""


def deny(check: Check[T], since: KubeRay = ALWAYS, *, by: str = NOBODY) -> Rule[T]:
    """Return a rule named like its function that refuses objects, unless settings say otherwise."""
    return Rule(_name(check), DENY, check, since, by)


def warn(check: Check[T], *, by: str = NOBODY) -> Rule[T]:
    """Return a rule named like its function that lets objects pass with a warning, unless settings
    say otherwise.
    """
    return Rule(_name(check), WARN, check, by=by)


def _name(check: Check[T]) -> str:
    name: str = getattr(check, "__name__", "")
    return name.replace("_", "-")
