"""The tracker: changes between reports, and the events to record for them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct, field, structs

from webhook.diagnostics import report
from webhook.diagnostics.diagnosis import EventRule, Problem
from webhook.diagnostics.examination import DIAGNOSES
from webhook.diagnostics.messages import others
from webhook.objects.live_objects import NOTE_MAX

Kind = Literal["Normal", "Warning"]

_EVENTS: Final[Mapping[str, EventRule]] = {
    diagnosis.id: diagnosis.event for diagnosis in DIAGNOSES if diagnosis.event is not None
}
"""The events of diagnoses, by id."""

COMPLETE: Final = "ReplicaComplete"
RESOLVED: Final = "Resolved"
"""Suffix of the reason of an event that reports the end of a problem."""


class SeriesKey(NamedTuple):
    """Identity of a series of events: RayCluster, replica or other object, and reason."""

    uid: str
    place: tuple[str, str]
    """Group, and name or index of the replica, or of all replicas that share the series from its
    first event on; empty if the event is about more than a replica.
    """
    reason: str


class EventRequest(Struct, frozen=True):
    """An event to record on a RayCluster."""

    key: SeriesKey
    kind: Kind
    namespace: str
    cluster: str
    note: str


SERIES_MAX: Final = 1000
"""Worker groups in the numbers for metrics, and problems: incomplete groups come first."""


class Tally(Struct, frozen=True):
    """Numbers of replicas of one group by state, and of its pods that lack an identity.

    `incomplete_since`: when the first of the incomplete replicas became incomplete, in seconds
    since the epoch.
    """

    namespace: str
    cluster: str
    group: str
    replicas: dict[str, int]
    without_identity: int
    incomplete_since: float | None


class TrackedProblems(Struct, frozen=True):
    """The result of a report: the events to record now, and the numbers for metrics."""

    event_requests: tuple[EventRequest, ...]
    tallies: tuple[Tally, ...]
    problems: dict[tuple[str, str, str], int]
    """Numbers of problems by namespace, RayCluster and diagnosis; problems of the installation have
    neither namespace nor RayCluster, those of owners without a RayCluster only a namespace.
    """


Place = tuple[str, str, str]
"""Uid of the RayCluster, group, and name or index of a replica."""


class Tracker(Struct):
    """Keeps the beginnings of problems from report to report."""

    affected: dict[SeriesKey, float] = field(default_factory=dict)
    series: dict[SeriesKey, SeriesKey] = field(default_factory=dict)
    """The series of each reported replica and reason."""
    open: dict[SeriesKey, EventRequest] = field(default_factory=dict)
    """The events of the previous report, by series."""
    incomplete: dict[Place, float] = field(default_factory=dict)
    complete: set[Place] | None = None
    """The replicas that were complete in the previous report; None before the first report."""

    def track(self, cluster_report: report.ClusterReport) -> TrackedProblems:
        """Process a report. Ignored and unexamined RayClusters get no events."""
        left_alone = {
            cluster.uid
            for cluster in cluster_report.clusters
            if cluster.failure or any(problem.id == "ignored" for problem in cluster.problems)
        }
        event_requests = tuple(
            event_request
            for event_request in (
                *self._wrong(cluster_report),
                *self._track_completions(cluster_report),
            )
            if event_request.key.uid not in left_alone
        )
        tallies = [tally for cluster in cluster_report.clusters for tally in self._tallies(cluster)]
        if len(tallies) > SERIES_MAX:
            tallies.sort(key=lambda tally: not (tally.incomplete_since or tally.without_identity))
        problems = Counter(
            (problem.namespace, problem.cluster, problem.id)
            for problem in cluster_report.every_problem
        )
        return TrackedProblems(
            event_requests, tuple(tallies[:SERIES_MAX]), dict(problems.most_common(SERIES_MAX))
        )

    def _wrong(self, cluster_report: report.ClusterReport) -> Iterator[EventRequest]:
        """Yield an event for each series of problems that have lasted long enough."""
        problems_by_key: dict[SeriesKey, tuple[report.RayClusterReport, Problem]] = {}
        installation_problems = [
            problem for problem in cluster_report.problems if not problem.namespace
        ]
        for cluster in cluster_report.clusters:
            names: dict[tuple[str, int | None], str] = {
                (group.name, replica.index): _describe_replica(replica)
                for group in cluster.groups
                for replica in group.replicas
                if replica.index is not None
            }
            for problem in (*cluster.problems, *installation_problems):
                event = _EVENTS.get(problem.id)
                if event is not None:
                    replica = names.get((problem.group, problem.replica), "")
                    key = SeriesKey(cluster.uid, (problem.group, replica), event.reason)
                    problems_by_key.setdefault(key, (cluster, problem))
        self.affected = {key: self.affected.get(key, cluster_report.now) for key in problems_by_key}
        lasting_problems = {
            key: (cluster, problem)
            for key, (cluster, problem) in problems_by_key.items()
            # Most replicas are incomplete for a while when they start, which is no problem.
            if cluster_report.now - self.affected[key] >= _EVENTS[problem.id].seconds
        }
        # A reported problem keeps its series
        series_of = self.series | _at_once(
            key for key in lasting_problems if key not in self.series
        )
        self.series = {
            key: _of_group(key) if _EVENTS[problem.id].shared else series_of[key]
            for key, (_, problem) in lasting_problems.items()
        }
        by_series: dict[SeriesKey, list[tuple[report.RayClusterReport, Problem]]] = {}
        for key, lasting_problem in lasting_problems.items():
            by_series.setdefault(self.series[key], []).append(lasting_problem)
        previous_requests, self.open = self.open, {}
        for series, ((cluster, problem), *other_problems) in by_series.items():
            note = _note(problem, [other_problem.replica for _, other_problem in other_problems])
            event_request = EventRequest(
                series, "Warning", namespace=cluster.namespace, cluster=cluster.name, note=note
            )
            self.open[series] = event_request
            yield event_request
        existing_uids = {
            reported_cluster.uid
            for reported_cluster in cluster_report.clusters
            # A RayCluster that could not be checked has not lost its problems.
            if not (reported_cluster.failure or reported_cluster.deleting)
        }
        for series, event_request in previous_requests.items():
            if series not in self.open and series.uid in existing_uids:
                yield _build_resolved_event(event_request)

    def _track_completions(self, cluster_report: report.ClusterReport) -> Iterator[EventRequest]:
        """Yield an event per group for multi-host replicas that became complete since the last
        report.
        """
        old_complete, self.complete = self.complete, set()
        old_incomplete, self.incomplete = self.incomplete, {}
        done: dict[
            SeriesKey, tuple[report.RayClusterReport, report.GroupReport, report.ReplicaReport]
        ] = {}
        for cluster in cluster_report.clusters:
            for group in cluster.groups:
                for replica in group.replicas:
                    place = cluster.uid, group.name, _describe_replica(replica)
                    if replica.state == report.COMPLETE:
                        self.complete.add(place)
                        if (
                            old_complete is not None
                            and place not in old_complete
                            and group.hosts > 1
                        ):
                            done[SeriesKey(cluster.uid, place[1:], COMPLETE)] = (
                                cluster,
                                group,
                                replica,
                            )
                    elif replica.state != report.DELETING:
                        # After a restart of this process, the pods show better since when a replica
                        # is incomplete.
                        since = replica.since if old_complete is None else None
                        begun = old_incomplete.get(place, since or cluster_report.now)
                        self.incomplete.setdefault(place, begun)
        by_series: dict[
            SeriesKey,
            list[tuple[report.RayClusterReport, report.GroupReport, report.ReplicaReport]],
        ] = {}
        for key, series in _at_once(done).items():
            by_series.setdefault(series, []).append(done[key])
        for series, ((cluster, group, replica), *other_entries) in by_series.items():
            rest = others([other_replica.index for _, _, other_replica in other_entries])
            note = (
                f"all {group.hosts} hosts of replica {_describe_replica(replica)} are ready{rest}"
            )
            yield EventRequest(
                series, "Normal", namespace=cluster.namespace, cluster=cluster.name, note=note
            )

    def _tallies(self, cluster: report.RayClusterReport) -> Iterator[Tally]:
        without_identity = Counter[str]()
        for problem in cluster.problems:
            if problem.id == "pod-without-identity":
                without_identity[problem.group] += len(problem.pods)
        for group in cluster.groups:
            yield self._tally(cluster, group, without_identity[group.name])

    def _tally(
        self, cluster: report.RayClusterReport, group: report.GroupReport, without_identity: int
    ) -> Tally:
        times = [
            since
            for replica in group.replicas
            if (since := self.incomplete.get((cluster.uid, group.name, _describe_replica(replica))))
            is not None
        ]
        return Tally(
            cluster.namespace,
            cluster.name,
            group=group.name,
            replicas=Counter(replica.state for replica in group.replicas),
            without_identity=without_identity,
            incomplete_since=min(times, default=None),
        )


def _build_resolved_event(event_request: EventRequest) -> EventRequest:
    """Return the event that reports the end of a problem."""
    key = event_request.key._replace(reason=f"{event_request.key.reason}{RESOLVED}")
    note = f"resolved: {event_request.note}"[:NOTE_MAX].partition(". To fix it: ")[0]
    return structs.replace(event_request, key=key, kind="Normal", note=note)


def _of_group(key: SeriesKey) -> SeriesKey:
    return key._replace(place=(key.place[0], ""))


def _at_once(keys: Iterable[SeriesKey]) -> dict[SeriesKey, SeriesKey]:
    """Return the series of problems found at once, by replica and reason: one series per group,
    named after all its replicas, so that replicas found later get another series.
    """
    groups: dict[SeriesKey, list[SeriesKey]] = {}
    for key in keys:
        groups.setdefault(_of_group(key), []).append(key)
    series: dict[SeriesKey, SeriesKey] = {}
    for of_group, together in groups.items():
        place = of_group.place[0], " ".join(replica_key.place[1] for replica_key in together)
        series |= dict.fromkeys(together, of_group._replace(place=place))
    return series


def _describe_replica(replica: report.ReplicaReport) -> str:
    """Return the name of a replica, otherwise its index, or `missing` for a missing replica."""
    return replica.name or ("missing" if replica.index is None else str(replica.index))


def _note(problem: Problem, more: Sequence[int | None]) -> str:
    """Return the note of an event: problem, other replicas and remedy, within NOTE_MAX."""
    place = f"{problem.group}: " if problem.group else ""
    message = f"{place}{problem.message}{others(more)}. To fix it: {problem.remedy}"
    whole = f"{message}: {problem.command}"
    # Without the command if it does not fit: a part of a command is of no use.
    return whole if len(whole) <= NOTE_MAX else message[:NOTE_MAX]
