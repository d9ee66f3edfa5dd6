"""Identities of pods in their worker groups, and in the labels of pods."""

import re
from typing import Final, NamedTuple

from msgspec import Struct

from webhook.api import names
from webhook.api.formats import is_label_value, shortened
from webhook.api.objects import Strings
from webhook.api.review import INVALID, REQUIRED, Cause, Denied

MAX_REPLICAS: Final = 1 << 16
"""Replica indices are less than this number; it bounds the memory for a pod, 17 KB, against labels
such as `2000000000`.
"""

MAX_HOSTS: Final = 4096
"""Maximum hosts of a replica. The largest TPU slices have about 2,300 hosts; a longer host list
would not fit into a pod.
"""


class GroupKey(Struct, frozen=True, gc=False):
    """A worker group. A RayCluster recreated under the same name has another uid, so it is another
    group.
    """

    namespace: str
    cluster_uid: str
    group: str


class ShardKey(NamedTuple):
    """A shard group; names are unique per namespace."""

    namespace: str
    group: str


Key = GroupKey | ShardKey


class HostIdentity(Struct, frozen=True, gc=False, array_like=True):
    """Replica index and host index (both from 0), and the replica name, which is empty in
    single-host groups.
    """

    replica: int
    host: int
    name: str


_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def is_labelled(labels: Strings) -> bool:
    """Return whether a pod has any identity label."""
    return not labels.keys().isdisjoint(names.SEAT_LABELS)


def carried_seat(labels: Strings, hosts: int) -> HostIdentity | None:
    """Return the identity in the labels of a pod of a group of `hosts` hosts, or None if there are
    no identity labels.

    Raises Denied if the labels are incomplete or invalid.
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
    """Return the causes for a label that is not an index below `bound`; none if it is valid."""
    if not _INDEX.fullmatch(text):
        return [
            _cause(
                INVALID,
                label,
                f"{shortened(text)!r} is not an index: it must be a decimal number from 0 to "
                f"{bound - 1}",
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
    message = (
        f"{shortened(text)!r} is not a replica name: it must be a label value that is not empty"
    )
    return [_cause(INVALID, names.LABEL_REPLICA_NAME, message)]


def _part(label: str, hosts: int) -> Cause:
    whole = (
        "all three identity labels"
        if hosts > 1
        else f"{names.LABEL_REPLICA_INDEX} alone, or all three identity labels"
    )
    return _cause(
        REQUIRED,
        label,
        f"the pod carries only a part of its identity: a group of {hosts} "
        f"host{'s' if hosts > 1 else ''} needs {whole}, or none of "
        f"them; remove identity labels from the pod template",
    )


def _cause(reason: str, label: str, message: str) -> Cause:
    return Cause(reason, message, f"metadata.labels[{label}]")
