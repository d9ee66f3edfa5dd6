"""Affinity: the hosts of a unit together on one slice or NVLink domain, and no other unit on it.

See docs/contributing/decisions/0009-apart-from-every-other-replica.md.
"""

from typing import Any

from webhook.accelerators.devices import DEVICES, TPU
from webhook.api import names
from webhook.api.objects import Affinity
from webhook.groups.annotations import TOPOLOGY_KEY, WORKER_GROUP
from webhook.mutation.edit import (
    APART,
    TOGETHER,
    AppendTerm,
    Edit,
    Note,
    SetLabel,
    Warn,
)
from webhook.mutation.ray_pod import Replica


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the required terms of a unit of several hosts, unless the pod has them already.

    Together: pods of this unit. Apart: pods of any other unit, in whichever cluster or
    namespace, because node pools know neither; the policy may say the own namespace. Replica names
    alone are unique only by chance, so the cluster is matched too.
    """
    if replica.unit_hosts == 1:
        return []
    placed = replica.slice.placed
    key = (
        not (placed and replica.cluster.kueue.slices) and replica.cluster.topology_key
    ) or _usual_key(replica)
    if not key:
        return [Note(f"no affinity: {_why_none(replica)}")] if placed or replica.count(TPU) else []
    if problem := TOPOLOGY_KEY.problem(key):
        return [Warn(f"{TOPOLOGY_KEY.annotation}: {problem}")]
    mine = _labels(replica)
    present = replica.pod.spec.affinity or Affinity()
    together = {
        "labelSelector": {"matchLabels": mine},
        "topologyKey": key,
    }
    edits: list[Edit] = []
    if replica.in_unit:
        edits.append(SetLabel(names.LABEL_UNIT, WORKER_GROUP, "other units keep apart by it"))
    if together not in present.together:
        edits.append(
            AppendTerm(TOGETHER, together, "the hosts of this unit share one topology domain")
        )
    if replica.slice.parent and key == names.NODE_POOL:
        return edits  # sub-slices share the pool
    everywhere = replica.policy.apart == "all"
    apart = [
        _other(label, value, key, marker, everywhere=everywhere)
        for marker in (names.LABEL_REPLICA_NAME, *([names.LABEL_UNIT] if replica.in_unit else ()))
        for label, value in mine.items()
    ]
    known = present.apart
    edits += [
        AppendTerm(APART, term, "no host of another replica in that domain")
        for term in apart
        if term not in known
    ]
    return edits


def _labels(replica: Replica) -> dict[str, str]:
    """Return the labels that the pods of its unit share, and no other pod has."""
    own = (
        (names.LABEL_GROUP, replica.group_name)
        if replica.in_unit
        else (names.LABEL_REPLICA_NAME, replica.name)
    )
    return dict((own, (names.LABEL_CLUSTER, replica.cluster.name)))


def _usual_key(replica: Replica) -> str:
    """Return the node label that keeps hosts together with such devices, or nothing where that is
    not ours to say.
    """
    if not replica.slice.owns_pool:
        return ""
    return next(
        (
            device.topology_key
            for device in DEVICES
            if device.topology_key and replica.count(device)
        ),
        "",
    )


def _why_none(replica: Replica) -> str:
    """Return why hosts that have a usual key do not go by it."""
    if replica.slice.placed:
        return "Kueue chooses the nodes of these pods, and does not look at affinity to other pods"
    return (
        f"a sub-slice shares its node pool; {TOPOLOGY_KEY.annotation} may name a label that keeps "
        "its hosts together"
    )


def _other(label: str, value: str, key: str, marker: str, *, everywhere: bool) -> dict[str, Any]:
    """Return the term that matches pods with a `marker` whose `label` is another one, in all
    namespaces or in the pod's own.
    """
    expressions: list[dict[str, Any]] = [{"key": label, "operator": "NotIn", "values": [value]}]
    # A label that is absent satisfies NotIn, so the label of the hosts of units is required.
    expressions.append({"key": marker, "operator": "Exists"})
    scope: dict[str, Any] = {"namespaceSelector": {}} if everywhere else {}
    return {"labelSelector": {"matchExpressions": expressions}, **scope, "topologyKey": key}
