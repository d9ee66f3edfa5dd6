"""ComputeDomain: the resource claim with which a pod's GPUs access those of its unit over NVLink
(IMEX). Claims can be set only at creation of a pod.

https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html
"""

from typing import Any, Final

from webhook.accelerators.devices import GPU
from webhook.api import names
from webhook.api.objects import Affinity
from webhook.groups.compute_domains import domain_name, has_own
from webhook.mutation.edit import (
    APART,
    AddClaim,
    AppendTerm,
    Edit,
    Note,
    SetLabel,
    Warn,
)
from webhook.mutation.ray_pod import Replica

_PODS: Final = {"matchExpressions": [{"key": names.LABEL_COMPUTE_DOMAIN, "operator": "Exists"}]}


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the claim for every container with GPUs, or for all containers if GPUs are claimed,
    and the term that schedules pods of ComputeDomains on separate nodes.
    """
    domains, pod = replica.cluster.domains, replica.pod
    asked = domains.head if replica.head else replica.group_name in domains.groups
    claims = pod.spec.resource_claims or []
    if not asked:
        return []
    if has_own(claims):
        return [Note("no ComputeDomain: the pod template claims one itself")]
    if replica.policy.no_domains:
        return [Warn(f"no ComputeDomain: {replica.policy.no_domains}")]
    slots = [slot for slot in replica.slots if slot.devices.get(GPU.name)]
    if not slots:  # GPUs are requested by claims
        slots = replica.slots[: len(pod.spec.containers or ())]
    cluster = replica.cluster
    template = domain_name(
        domains.unit, cluster.name, cluster.uid, replica.group_name, replica.name
    )
    why = "the GPUs of the ComputeDomain share memory over NVLink"
    paths = tuple([slot.path for slot in slots])
    edits: list[Edit] = [AddClaim(names.CLAIM_COMPUTE_DOMAIN, template, paths, why)]
    if names.LABEL_COMPUTE_DOMAIN not in pod.labels:
        edits.append(
            SetLabel(names.LABEL_COMPUTE_DOMAIN, domains.unit, "pods of ComputeDomains find it")
        )
    term: dict[str, Any] = {"labelSelector": _PODS, "topologyKey": names.LABEL_HOSTNAME}
    if replica.policy.apart == "all":
        term["namespaceSelector"] = {}
    present = pod.spec.affinity or Affinity()
    if not replica.slice.placed and term not in present.apart:
        why = "a node is in one ComputeDomain, and has one channel for one pod"
        edits.append(AppendTerm(APART, term, why))
    return edits
