"""The seat that a former webhook gave: label `replicaIndex` and a literal `TPU_WORKER_ID`."""

from typing import Final

from webhook.groups.seat import MAX_HOSTS, MAX_REPLICAS, Seat
from webhook.kube import names
from webhook.kube.review import INVALID, Cause, Denied

_DIGITS: Final = 9
"""Digits of an index; a longer one is out of any bound."""


def adopted_seat(group: str, label: str, worker_id: str | None) -> Seat | None:
    """Return the seat that a former webhook gave: `label` is `<group>-<n>`; None without an id.

    The replica's name is the label itself. It is the same for all hosts of the replica, so that
    hosts which we seat later get one name among them, and it is none that KubeRay or we would draw
    for another replica of the group. Raises Denied.
    """
    if not worker_id:
        return None
    index = label.removeprefix(f"{group}-")
    if index == label or not _is_index(index, MAX_REPLICAS) or not _is_index(worker_id, MAX_HOSTS):
        text = f"{label!r} and {names.TPU_WORKER_ID} {worker_id!r} are no seat: expected {group}-<index> and the number of a host"
        raise Denied(Cause(INVALID, text, f"metadata.labels[{names.LABEL_LEGACY_REPLICA_INDEX}]"))
    return Seat(int(index), int(worker_id), label)


def _is_index(text: str, bound: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) < bound
