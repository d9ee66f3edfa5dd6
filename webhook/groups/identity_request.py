"""Identities that worker pods carry, and what is wanted for one that carries none."""

import re
from typing import Final

from msgspec import Struct

from webhook.api import names
from webhook.api.formats import is_label_value
from webhook.api.objects import Strings
from webhook.api.review import (
    INVALID,
    REQUIRED,
    Cause,
    Denied,
)
from webhook.groups.identity import MAX_REPLICAS, GroupKey, HostIdentity


class IdentityRequest(Struct, frozen=True, gc=False):
    """An identity that is wanted: in which group of how many hosts and desired replicas, of which
    RayCluster, by which review.

    `read` says that the pods of the group were read live for this review. `given` is the identity
    that `pod`, as messages call it, has from the previous webhook.
    """

    cluster: str
    key: GroupKey
    hosts: int
    desired: int
    request_uid: str
    read: bool = False
    given: HostIdentity | None = None
    pod: str = ""


_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def is_labelled(labels: Strings) -> bool:
    """Return whether the labels of a pod say anything of its seat."""
    return not labels.keys().isdisjoint(names.SEAT_LABELS)


def carried_seat(labels: Strings, hosts: int) -> HostIdentity | None:
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
        return HostIdentity(int(index), 0, "")
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
    return HostIdentity(int(index), int(host), name)


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
