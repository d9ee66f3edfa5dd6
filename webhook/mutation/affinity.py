"""Affinity: the hosts of a replica together on one slice or NVLink domain, and no other replica on it."""

from functools import lru_cache
from typing import Any, Final

from webhook.kube import names
from webhook.kube.objects import PodAffinity
from webhook.kube.shapes import is_qualified_name
from webhook.mutation.edit import AppendTerm, Edit, Warn
from webhook.mutation.worker import Worker

TOGETHER: Final = "podAffinity"
APART: Final = "podAntiAffinity"


def affinity(worker: Worker) -> list[Edit]:
    """Return the required terms of a multi-host replica, unless the pod has them already.

    Together: pods of this replica. Apart: pods of any other replica, in whichever cluster or namespace, because node pools
    know neither. Replica names alone are unique only by chance, so the cluster is matched too.
    """
    if worker.hosts == 1:
        return []
    key = worker.cluster.topology_key or (names.NODE_POOL if worker.chips else "")
    if not key:
        return []
    edits = _wanted(worker.cluster.name, worker.seat.name, key)
    present = worker.pod.spec.affinity
    if present is None:
        return edits
    terms = {TOGETHER: _terms(present.pod_affinity), APART: _terms(present.pod_anti_affinity)}
    return [edit for edit in edits if not isinstance(edit, AppendTerm) or edit.term not in terms[edit.kind]]


@lru_cache(maxsize=256)
def _wanted(cluster: str, replica: str, key: str) -> list[Edit]:
    """Return the edits of a pod without affinity; kept, because the hosts of a replica come one by one."""
    if not is_qualified_name(key):
        return [Warn(f"{names.ANNOTATION_TOPOLOGY_KEY} is not a node label key, so replicas get no affinity: correct it")]
    together = {
        "labelSelector": {"matchLabels": {names.LABEL_CLUSTER: cluster, names.LABEL_REPLICA_NAME: replica}},
        "topologyKey": key,
    }
    apart = [_other(names.LABEL_REPLICA_NAME, replica, key), _other(names.LABEL_CLUSTER, cluster, key)]
    return [
        AppendTerm(TOGETHER, together, "the hosts of this replica share one topology domain"),
        *(AppendTerm(APART, term, "no host of another replica in that domain") for term in apart),
    ]


def _terms(affinity: PodAffinity | None) -> list[dict[str, Any]]:
    return (affinity and affinity.required_during_scheduling_ignored_during_execution) or []


def _other(label: str, value: str, key: str) -> dict[str, Any]:
    """Return the term that matches seated pods whose `label` is another one."""
    expressions: list[dict[str, Any]] = [{"key": label, "operator": "NotIn", "values": [value]}]
    # A label that is absent satisfies NotIn, so say that these pods are hosts of a replica.
    expressions.append({"key": names.LABEL_REPLICA_NAME, "operator": "Exists"})
    return {"labelSelector": {"matchExpressions": expressions}, "namespaceSelector": {}, "topologyKey": key}
