"""Seating: the seat that a worker pod carries, or else the seat it gets.

See docs/decisions/0002-full-of-pods-that-never-appeared.md.
"""

import re
from typing import Final

from msgspec import Struct

from webhook.groups.claims import ASSUMED_SECONDS
from webhook.groups.membership import Membership
from webhook.groups.naming import replica_name
from webhook.groups.reads import ReadGroup
from webhook.groups.seat import MAX_REPLICAS, GroupKey, Seat
from webhook.kube import names
from webhook.kube.objects import Strings
from webhook.kube.review import FORBIDDEN, INVALID, REQUIRED, Cause, Denied
from webhook.kube.shapes import is_label_value


class Wanted(Struct, frozen=True, gc=False):
    """A seat that is wanted: in which group of how many hosts and desired replicas, of which
    RayCluster, by which review.

    `read` tells that the pods of the group were read live for this review.
    """

    cluster: str
    key: GroupKey
    hosts: int
    desired: int
    request_uid: str
    read: bool = False


_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def is_labelled(labels: Strings) -> bool:
    """Tell whether the labels of a pod say anything of its seat."""
    return not labels.keys().isdisjoint(names.SEAT_LABELS)


def carried_seat(labels: Strings, hosts: int) -> Seat | None:
    """Return the seat that the labels of a pod of a group of `hosts` hosts say, or None when they
    say nothing.

    Raises Denied when the labels are only a part of a seat, or cannot be one.
    """
    index = labels.get(names.LABEL_REPLICA_INDEX)
    name = labels.get(names.LABEL_REPLICA_NAME)
    host = labels.get(names.LABEL_HOST_INDEX)
    if index is None and name is None and host is None:
        return None
    if hosts == 1 and index is not None and name is None and host is None:
        causes = _index_causes(names.LABEL_REPLICA_INDEX, index, MAX_REPLICAS)
        if causes:
            raise Denied(*causes)
        return Seat(int(index), 0, "")
    if index is None or name is None or host is None:
        missing = [label for label in names.SEAT_LABELS if label not in labels]
        raise Denied(*(_part(label, hosts) for label in missing))
    causes = [
        *_index_causes(names.LABEL_REPLICA_INDEX, index, MAX_REPLICAS),
        *_name_causes(name),
        *_index_causes(names.LABEL_HOST_INDEX, host, hosts),
    ]
    if causes:
        raise Denied(*causes)
    return Seat(int(index), int(host), name)


def next_seat(members: Membership, key: GroupKey, hosts: int, request_uid: str) -> Seat:
    """Return the seat that the next pod of a group gets; nothing is recorded.

    It is the lowest free host of the lowest-indexed replica that lacks one, else host 0 of the
    lowest free index, with a replica name made from the request's uid.
    """
    group = members.group(key)
    group.set_hosts(hosts)
    seat = group.next_seat()
    if hosts == 1:
        return seat
    # Another process may have begun the replica anew, knowing that the pods are gone by which it is
    # known here.
    name = members.claimed_name(key, seat.replica) or seat.name
    if name:
        return Seat(seat.replica, seat.host, name) if name != seat.name else seat
    attempt = 0
    while group.has_name(name := replica_name(key.group, request_uid, attempt)):
        attempt += 1
    return Seat(seat.replica, seat.host, name)


def choose(members: Membership, wanted: Wanted) -> Seat | ReadGroup:
    """Return the seat that is wanted; nothing is recorded.

    A replica beyond the desired count is opened only after a live read: the watch may not have told
    of a deletion yet. Raises Denied when the group is full only of pods that nobody has seen.
    """
    seat = next_seat(members, wanted.key, wanted.hosts, wanted.request_uid)
    if seat.replica < wanted.desired or members.group(wanted.key).has_replica(seat.replica):
        return seat
    if not wanted.read:
        return ReadGroup(wanted.cluster, wanted.key)
    _refuse_while_unseen(members, wanted.key, wanted.desired)
    return seat


def _refuse_while_unseen(members: Membership, key: GroupKey, desired: int) -> None:
    """Raise Denied when the seats below `desired` are full only because some are assumed, although
    a live read was made.

    Their pods were admitted here, but the API server may have refused them later, by a quota for
    example. Nobody can tell such a pod from one that is still on its way; but their time is short,
    and a pod beyond them leaves a replica incomplete for good.
    """
    unseen = members.unseen(key, desired)
    if not unseen:
        return
    text = (
        f"all seats of the {desired} replicas of worker group {key.group} are taken, {unseen} of "
        "them by pods that were admitted "
        f"within the last {ASSUMED_SECONDS:.0f} s and have not appeared: if the API server "
        "refused them (see earlier events: a "
        "quota, another webhook), their seats are free again after that time, and KubeRay tries "
        "again"
    )
    raise Denied(Cause(FORBIDDEN, text, f"metadata.labels[{names.LABEL_GROUP}]"))


def _index_causes(label: str, text: str, bound: int) -> list[Cause]:
    """Return why a label is not an index below `bound`; nothing when it is one."""
    if not _INDEX.fullmatch(text):
        return [
            _cause(
                INVALID,
                label,
                f"{text!r} is not an index: it must be a decimal number from 0 to {bound - 1}",
            )
        ]
    if int(text) >= bound:
        return [
            _cause(
                INVALID, label, f"{text} is out of range: this group has indices 0 to {bound - 1}"
            )
        ]
    return []


def _name_causes(text: str) -> list[Cause]:
    if text and is_label_value(text):
        return []
    message = f"{text!r} is not a replica name: it must be a label value that is not empty"
    return [_cause(INVALID, names.LABEL_REPLICA_NAME, message)]


def _part(label: str, hosts: int) -> Cause:
    whole = (
        "all three seat labels"
        if hosts > 1
        else f"{names.LABEL_REPLICA_INDEX} alone, or all three seat labels"
    )
    return _cause(
        REQUIRED,
        label,
        f"the pod carries only a part of its seat: a group of {hosts} "
        f"host{'s' if hosts > 1 else ''} needs {whole}, or none of "
        f"them; remove seat labels from the pod template",
    )


def _cause(reason: str, label: str, message: str) -> Cause:
    return Cause(reason, message, f"metadata.labels[{label}]")
