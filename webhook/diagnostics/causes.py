"""Causes: a problem that is the consequence of another one is not shown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from webhook.diagnostics import ids
from webhook.diagnostics.diagnosis import Trouble

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


def causes(troubles: Sequence[Trouble]) -> Iterator[Trouble]:
    """Yield the problems of a RayCluster that no other problem of the same RayCluster explains.

    A cause about a group or a replica explains problems within that group or replica only. A cause
    about pods explains the problems of these pods, and as many missing hosts as it has surplus
    pods.
    """
    found = [trouble for trouble in troubles if trouble.id in EXPLAINS]
    surplus = [len(cause.pods) - len(cause.hosts) for cause in found]
    for trouble in troubles:
        for number, cause in enumerate(found):
            if trouble.id not in EXPLAINS[cause.id] or not _within(cause, trouble):
                continue
            if trouble.id == ids.HOST_MISSING and cause.pods:
                if len(trouble.hosts) > surplus[number]:
                    continue
                surplus[number] -= len(trouble.hosts)
            elif not set(trouble.pods) <= set(cause.pods):
                continue
            break
        else:
            yield trouble


def _within(cause: Trouble, trouble: Trouble) -> bool:
    same_group = cause.group in ("", trouble.group)
    return same_group and cause.replica in (None, trouble.replica)
