"""A diagnosis: a function that yields symptoms, a level and a delay."""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from msgspec import Struct

from webhook.diagnostics.messages import format_count, hosts

T = TypeVar("T")

Level = Literal["error", "warning", "info"]

ERROR: Final = "error"
WARNING: Final = "warning"
INFO: Final = "info"

LEVELS: Final = (ERROR, WARNING, INFO)
"""The most severe first."""

PAGE: Final = "docs/diagnoses.md"


class Begin(Struct, frozen=True, gc=False):
    """The time at which a problem began, if known, and a time at which it did not exist yet. Both
    in seconds since the epoch.
    """

    since: float | None = None
    not_before: float | None = None


def begun(reported: Iterable[float | None], others: Iterable[float | None]) -> Begin:
    """Return the beginning of a problem: the latest of the times in `reported`, unless a time in
    `others`, at which the problem did not exist yet, is later.
    """
    last, bound = latest(reported), latest(others)
    if last is not None and (bound is None or last >= bound):
        return Begin(last)
    return Begin(None, bound)


def latest(times: Iterable[float | None]) -> float | None:
    """Return the latest of the known times."""
    return max((time for time in times if time is not None), default=None)


def earliest(times: Iterable[float | None]) -> float | None:
    """Return the earliest of the known times."""
    return min((time for time in times if time is not None), default=None)


class ChangingCommand(Struct, frozen=True, gc=False):
    """A command that changes the cluster, and its effects, including what a deletion ends."""

    command: str
    does: str


def deletion_of_pods(namespace: str, names: Sequence[str]) -> ChangingCommand:
    """Return the change that deletes pods."""
    they = "them" if len(names) > 1 else "it"
    return ChangingCommand(
        f"kubectl delete pod -n {namespace} {' '.join(names)}",
        f"deletes {format_count(len(names), 'pod')}, and ends what runs in {they}",
    )


class Symptom(Struct, frozen=True, gc=False):
    """A problem that a diagnosis yields, with its remedy.

    `command` only reads, and shows details; empty: it shows the pods, or the RayCluster if there
    are none. `change` is the command of the remedy that changes the cluster; with `deletes`, it
    deletes the pods. `hosts` and `pods` are those affected. `replica` is the index of the affected
    replica, if the diagnosis is about more than one replica. `until`: when the symptom ends without
    a change of an object, in seconds since the epoch. Problems of other replicas are alike only if
    their `cause` is the same.
    """

    message: str
    remedy: str
    command: str = ""
    begin: Begin = Begin()
    hosts: tuple[int, ...] = ()
    pods: tuple[str, ...] = ()
    replica: int | None = None
    change: ChangingCommand | None = None
    deletes: bool = False
    until: float | None = None
    cause: str = ""


class EventRule(NamedTuple):
    """The event for a diagnosis: its reason, and the number of seconds the problem has to last.

    The replicas of a group that are found with the problem at once share a series of events. With
    `shared`, all of them do, because they have it for one reason.
    """

    reason: str
    seconds: float = 0.0
    shared: bool = False


class Diagnosis(Struct, Generic[T], frozen=True):
    """A diagnosis over objects of type T: an error does not work, a warning may stop working, an
    info is intended.

    Its id is the name of the function with dashes, and the docstring of the function its
    documentation: what is wrong, the effects, and the source.

    Symptoms are reported after `seconds`, because a normal start passes through the same states.
    With `event`, RayClusters get an event.
    """

    check: Callable[[T], Iterable[Symptom]]
    level: Level
    seconds: float = 0.0
    event: EventRule | None = None

    @property
    def id(self) -> str:
        return self.check.__name__.replace("_", "-")

    @property
    def page(self) -> str:
        """Link to its documentation."""
        return f"{PAGE}#{self.id}"

    def due(self, symptom: Symptom) -> float:
        """Return when a symptom is reported, in seconds since the epoch; at once if its beginning
        is unknown.
        """
        begin = symptom.begin.not_before if symptom.begin.since is None else symptom.begin.since
        return -inf if begin is None else begin + self.seconds


class Problem(Struct, frozen=True, omit_defaults=True, gc=False):
    """A reported problem with its diagnosis and place; `since` in seconds since the epoch."""

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
    change: ChangingCommand | None = None
    """Only for errors."""
    cause: str = ""
    owner: str = ""
    """A RayJob or RayService without a RayCluster, such as `RayJob/train`."""

    @property
    def brief(self) -> str:
        """A few words, for the row of a replica."""
        if self.id == "host-missing":
            return f"{hosts(self.hosts)} missing"
        return self.id if len(self.hosts) != 1 else f"host {self.hosts[0]}: {self.id}"

    @property
    def rank(self) -> tuple[object, ...]:
        """Sort key: level, RayCluster, beginning, then group and replica."""
        return (
            LEVELS.index(self.level),
            self.namespace,
            self.cluster,
            inf if self.since is None else self.since,
            self.group,
            -1 if self.replica is None else self.replica,
            self.id,
            self.message,
        )
