"""Causes: a problem that is the consequence of another one is not shown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from webhook.diagnostics import ids
from webhook.diagnostics.diagnosis import Problem

EXPLAINS: Final[Mapping[str, tuple[str, ...]]] = {
    ids.POD_REFUSED: (ids.HEAD_MISSING, ids.REPLICA_MISSING, ids.HOST_MISSING),
    ids.POD_WITHOUT_GROUP: (ids.HOST_MISSING,),
    ids.POD_WITHOUT_SEAT: (ids.HOST_MISSING,),
    ids.SEAT_HELD_TWICE: (ids.HOST_MISSING, ids.WORKER_ID_DIFFERS, ids.HOSTNAME_DIFFERS),
    ids.CONTAINER_WAITS: (ids.HOST_RESTARTED,),
    ids.RESIZE_FAILED: (ids.RESIZE_STUCK,),
    ids.WORKER_ID_DIFFERS: (ids.HOSTNAME_DIFFERS,),
}
"""The consequences of each cause: they end when the cause is fixed, not the other way round."""


def causes(problems: Sequence[Problem]) -> Iterator[Problem]:
    """Yield the problems of a RayCluster that no other problem of the same RayCluster explains.

    A cause about a group or a replica explains problems within that group or replica only. A cause
    about pods explains the problems of these pods, and as many missing hosts as it has surplus
    pods.
    """
    found = [problem for problem in problems if problem.id in EXPLAINS]
    surplus = [len(cause.pods) - len(cause.hosts) for cause in found]
    for problem in problems:
        for number, cause in enumerate(found):
            if problem.id not in EXPLAINS[cause.id] or not _within(cause, problem):
                continue
            if problem.id == ids.HOST_MISSING and cause.pods:
                if len(problem.hosts) > surplus[number]:
                    continue
                surplus[number] -= len(problem.hosts)
            elif not set(problem.pods) <= set(cause.pods):
                continue
            break
        else:
            yield problem


def _within(cause: Problem, problem: Problem) -> bool:
    same_group = cause.group in ("", problem.group)
    return same_group and cause.replica in (None, problem.replica)
