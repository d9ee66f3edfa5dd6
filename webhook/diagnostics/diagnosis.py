"""A diagnosis: an id, a level, when it counts, and a small function that yields symptoms."""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from msgspec import Struct

from webhook.diagnostics import ids
from webhook.diagnostics.messages import counted, delete_pods, hosts

T = TypeVar("T")

Level = Literal["error", "warning", "info"]

ERROR: Final = "error"
WARNING: Final = "warning"
INFO: Final = "info"

LEVELS: Final = (ERROR, WARNING, INFO)
"""The worst first."""

PAGE: Final = "docs/diagnoses.md"


class Begin(NamedTuple):
    """When something began, as far as that is known, and a time at which it was not so yet, both in
    seconds since the epoch.
    """

    since: float | None
    not_before: float | None


def begun(told: Iterable[float | None], others: Iterable[float | None]) -> Begin:
    """Return when something began: at the last of the times that are `told` of it, unless one of
    the `others`, at which it was not so yet, is later.
    """
    last, bound = latest(told), latest(others)
    if last is not None and (bound is None or last >= bound):
        return Begin(last, None)
    return Begin(None, bound)


def latest(times: Iterable[float | None]) -> float | None:
    """Return the latest of the times that are known."""
    return max((time for time in times if time is not None), default=None)


def earliest(times: Iterable[float | None]) -> float | None:
    """Return the earliest of the times that are known."""
    return min((time for time in times if time is not None), default=None)


class Change(Struct, frozen=True):
    """A command that changes the cluster, and what it does, with what a deletion takes with it."""

    command: str
    does: str


def deletion_of_pods(namespace: str, names: Sequence[str]) -> Change:
    """Return the deletion of pods."""
    they = "them" if len(names) > 1 else "it"
    does = f"deletes {counted(len(names), 'pod')}, and ends what runs in {they}"
    return Change(delete_pods(namespace, names), does)


class Symptom(Struct, frozen=True):
    """What a diagnosis yields: what is wrong, what to do, and since when, as far as that is known.
    Where it is not, `not_before` is a time at which it was not so yet.

    `command` reads, and shows more; a command of the remedy that changes the cluster is `change`.
    `hosts` and `pods` are those it is about.
    """

    message: str
    remedy: str
    command: str
    since: float | None = None
    hosts: tuple[int, ...] = ()
    pods: tuple[str, ...] = ()
    replica: int | None = None
    """The replica it is about, where the thing that is looked at is more than that."""
    not_before: float | None = None
    change: Change | None = None


Check = Callable[[T], Iterable[Symptom]]


Series = Literal["each", "at once", "group"]
"""Which replicas of a group share a series of events: none, those found at once, or all."""


class Event(NamedTuple):
    """The event that a diagnosis becomes: its reason, how many seconds the trouble lasts first, and
    which replicas of a group share a series: all of them where they have it for one reason, those
    that come to have it at once where that is likely.
    """

    reason: str
    seconds: float = 0.0
    series: Series = "each"


class Diagnosis(Struct, Generic[T], frozen=True):
    """A diagnosis over things of type T.

    Its function's docstring is its documentation: what it shows, why it hurts, and the source.

    It counts only after `seconds`: until then, what it shows may be a moment of a start that goes
    well. With `event`, RayClusters get an event.
    """

    id: str
    level: Level
    seconds: float
    check: Check[T]
    event: Event | None = None

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
    change: Change | None = None
    """Only of an error."""

    @property
    def brief(self) -> str:
        """What it says in a few words, for the row of a replica."""
        if self.id == ids.HOST_MISSING:
            return f"{hosts(self.hosts)} missing"
        return self.id if len(self.hosts) != 1 else f"host {self.hosts[0]}: {self.id}"

    @property
    def rank(self) -> tuple[object, ...]:
        """What to sort by: the worst first, in a RayCluster what began first, then by place."""
        replica = -1 if self.replica is None else self.replica
        return (
            LEVELS.index(self.level),
            self.namespace,
            self.cluster,
            float("inf") if self.since is None else self.since,
            self.group,
            replica,
            self.id,
            self.message,
        )


def error(
    id_: str, check: Check[T], *, seconds: float = 0.0, event: Event | None = None
) -> Diagnosis[T]:
    """Return a diagnosis of something that does not work."""
    return Diagnosis(id_, ERROR, seconds, check, event)


def warning(
    id_: str, check: Check[T], *, seconds: float = 0.0, event: Event | None = None
) -> Diagnosis[T]:
    """Return a diagnosis of something that works badly."""
    return Diagnosis(id_, WARNING, seconds, check, event)


def info(id_: str, check: Check[T], *, seconds: float = 0.0) -> Diagnosis[T]:
    """Return a diagnosis of something that is so by choice."""
    return Diagnosis(id_, INFO, seconds, check)


class Moment(Struct):
    """The time of an examination. `next` is when a symptom counts that does not count yet."""

    now: float
    next: float = inf

    def counts(self, diagnosis: Diagnosis[T], symptom: Symptom) -> bool:
        """Return whether a symptom has lasted long enough, or may have."""
        begin = symptom.not_before if symptom.since is None else symptom.since
        if begin is None or self.now - begin >= diagnosis.seconds:
            return True
        self.next = min(self.next, begin + diagnosis.seconds)
        return False
