"""A diagnosis: an id, a level, when it counts, and a small function that yields symptoms."""

from collections.abc import Callable, Iterable
from typing import Final, Generic, Literal, TypeVar

from msgspec import Struct

from webhook.status.words import hosts

T = TypeVar("T")

Level = Literal["error", "warning", "info"]

ERROR: Final = "error"
WARNING: Final = "warning"
INFO: Final = "info"

LEVELS: Final = (ERROR, WARNING, INFO)
"""The worst first."""

PAGE: Final = "docs/diagnoses.md"


class Symptom(Struct, frozen=True):
    """What a diagnosis yields: what is wrong, what to do, and since when, as far as that is known.

    `command` is the remedy for a shell, or what shows more. `hosts` and `pods` are those it is
    about.
    """

    message: str
    remedy: str
    command: str
    since: float | None = None
    hosts: tuple[int, ...] = ()
    pods: tuple[str, ...] = ()
    replica: int | None = None
    """The replica it is about, where the thing that is looked at is more than that."""


Check = Callable[[T], Iterable[Symptom]]


class Diagnosis(Struct, Generic[T], frozen=True):
    """A diagnosis over things of type T.

    Its function's docstring is its documentation: what it shows, why it hurts, and the source.

    It counts only after `seconds`: until then, what it shows may be a moment of a start that goes
    well.
    """

    id: str
    level: Level
    seconds: float
    check: Check[T]

    @property
    def page(self) -> str:
        """Where it is explained."""
        return f"{PAGE}#{self.id}"


class Trouble(Struct, frozen=True, omit_defaults=True):
    """A symptom that counts, with its diagnosis and its place; `since` in seconds
    since the epoch.
    """

    id: str
    level: Level
    message: str
    remedy: str
    command: str
    page: str
    since: float | None = None
    namespace: str = ""
    cluster: str = ""
    group: str = ""
    replica: int | None = None
    hosts: tuple[int, ...] = ()
    pods: tuple[str, ...] = ()

    @property
    def brief(self) -> str:
        """What it says in a few words, for the row of a replica."""
        if self.id == "host-missing":
            return f"{hosts(self.hosts)} missing"
        return self.id if len(self.hosts) != 1 else f"host {self.hosts[0]}: {self.id}"

    @property
    def rank(self) -> tuple[object, ...]:
        """What to sort by: the worst first, then by place."""
        replica = -1 if self.replica is None else self.replica
        return (
            LEVELS.index(self.level),
            self.namespace,
            self.cluster,
            self.group,
            replica,
            self.id,
            self.message,
        )


def error(check: Check[T], *, seconds: float = 0.0) -> Diagnosis[T]:
    """Return a diagnosis named like its function of something that does not work."""
    return Diagnosis(_name(check), ERROR, seconds, check)


def warning(check: Check[T], *, seconds: float = 0.0) -> Diagnosis[T]:
    """Return a diagnosis named like its function of something that works badly."""
    return Diagnosis(_name(check), WARNING, seconds, check)


def info(check: Check[T], *, seconds: float = 0.0) -> Diagnosis[T]:
    """Return a diagnosis named like its function of something that is so by choice."""
    return Diagnosis(_name(check), INFO, seconds, check)


def counts(diagnosis: Diagnosis[T], symptom: Symptom, now: float) -> bool:
    """Tell whether a symptom has lasted long enough."""
    return symptom.since is None or now - symptom.since >= diagnosis.seconds


def _name(check: Check[T]) -> str:
    name: str = getattr(check, "__name__", "")
    return name.replace("_", "-")
