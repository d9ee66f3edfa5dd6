"""A rule: a name, an enforcement action, and a function that yields faults."""

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
NO_ONE_ELSE: Final = "no one else"


class Rule(Struct, Generic[T], frozen=True):
    """A rule over views of type T. Its function's docstring is its documentation: problem, reason
    and source. The rule is skipped if KubeRay is older than `since`.
    """

    id: str
    level: Level
    check: Check[T]
    since: KubeRay = ALWAYS
    by: str = NO_ONE_ELSE
    """The program that refuses the value later, in the object or in objects created from it."""


def deny(check: Check[T], since: KubeRay = ALWAYS, *, by: str = NO_ONE_ELSE) -> Rule[T]:
    """Return a rule, named like its function, that denies unless settings override this."""
    return Rule(_name(check), DENY, check, since, by)


def warn(check: Check[T], *, by: str = NO_ONE_ELSE) -> Rule[T]:
    """Return a rule, named like its function, that warns unless settings override this."""
    return Rule(_name(check), WARN, check, by=by)


def _name(check: Check[T]) -> str:
    name: str = getattr(check, "__name__", "")
    return name.replace("_", "-")
