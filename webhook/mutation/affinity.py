"""Affinity: the hosts of a replica share a slice or NVLink domain, exclusively.

See docs/contributing/decisions/0009-anti-affinity-over-namespaces.md.
"""

from typing import Any

from webhook.api import names
from webhook.api.objects import Affinity
from webhook.groups.annotations import TOPOLOGY_KEY
from webhook.mutation.edit import APART, TOGETHER, AppendTerm, Edit, Note, Warn
from webhook.mutation.ray_pod import Replica


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the required affinity terms of a multi-host replica, unless the pod has them already.

    Affinity: pods of this replica. Anti-affinity: pods of any other, in all clusters and
    namespaces, because they share node pools; the policy may restrict it to the pod's namespace.
    Replica names may be equal by chance, so the terms match the cluster too.
    """
    if replica.hosts == 1:
        return []
    placed = replica.slice.placed
    key = replica.cluster.topology_key or _usual_key(replica)
    if not key:
        return [Note(f"no affinity: {_why_none(replica)}")] if placed or replica.chips else []
    if problem := TOPOLOGY_KEY.problem(key):
        return [Warn(f"{TOPOLOGY_KEY.annotation}: {problem}")]
    mine = {names.LABEL_REPLICA_NAME: replica.name, names.LABEL_CLUSTER: replica.cluster.name}
    present = replica.pod.spec.affinity or Affinity()
    together = {"labelSelector": {"matchLabels": mine}, "topologyKey": key}
    edits: list[Edit] = []
    # A second call by the API server must not add the term again.
    if together not in present.together:
        why = "the hosts of this replica share one topology domain"
        edits.append(AppendTerm(TOGETHER, together, why))
    if replica.slice.parent and key == names.NODE_POOL:
        return edits  # sub-slices share the pool
    everywhere = replica.policy.apart == "all"
    apart = [_other(label, value, key, everywhere=everywhere) for label, value in mine.items()]
    why = "no host of another replica in that domain"
    return [*edits, *(AppendTerm(APART, term, why) for term in apart if term not in present.apart)]


def _usual_key(replica: Replica) -> str:
    """Return the node label within one value of which hosts with such devices are scheduled, or an
    empty text if the webhook sets none.
    """
    keys = (
        device.topology_key
        for device in replica.policy.devices
        if device.topology_key and replica.count(device)
    )
    return next(keys, "") if replica.slice.owns_pool else ""


def _why_none(replica: Replica) -> str:
    """Return why hosts with a usual key have no affinity by it."""
    if replica.slice.placed:
        return "Kueue chooses the nodes of these pods, without their affinity to other pods"
    return (
        f"a sub-slice shares its node pool; {TOPOLOGY_KEY.annotation} may name a label that keeps "
        "its hosts together"
    )


def _other(label: str, value: str, key: str, *, everywhere: bool) -> dict[str, Any]:
    # NotIn also matches pods without the label, so the term requires a replica name. It is that of
    # a worker, because anyone may write one on another pod, and KubeRay sets the type of its pods.
    expressions: list[dict[str, Any]] = [
        {"key": label, "operator": "NotIn", "values": [value]},
        {"key": names.LABEL_REPLICA_NAME, "operator": "Exists"},
        {"key": names.LABEL_NODE_TYPE, "operator": "In", "values": [names.NODE_TYPE_WORKER]},
    ]
    scope: dict[str, Any] = {"namespaceSelector": {}} if everywhere else {}
    return {"labelSelector": {"matchExpressions": expressions}, **scope, "topologyKey": key}
