"""Rules of ComputeDomains: the pods that an annotation applies to, and unmet preconditions."""

from collections.abc import Iterator

from webhook.accelerators.devices import GPU
from webhook.api import names
from webhook.api.objects import ResourceClaim
from webhook.groups.annotations import CLUSTER, COMPUTE_DOMAIN, REPLICA
from webhook.groups.compute_domains import has_own
from webhook.validation.cluster import Cluster, Group
from webhook.validation.field import Field
from webhook.validation.finding import Fault


def compute_domain_not_kept(cluster: Cluster) -> Iterator[Fault]:
    """A ComputeDomain in a Kubernetes cluster where ComputeDomains are not managed.

    Pods are created without the claim, and NCCL falls back to the network. `ray-webhook validate`
    does not check this.

    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html
    """
    if cluster.settings.no_domains and _unit(cluster):
        yield Fault(_annotation(cluster), f"no effect: {cluster.settings.no_domains}")


def compute_domain_without_effect(cluster: Cluster) -> Iterator[Fault]:
    """A ComputeDomain that contains no pod.

    Only pods with GPUs are included: by a resource such as `nvidia.com/gpu`, or by resource claims.
    A replica of 1 host has no other host to share memory with.

    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html
    """
    unit = _unit(cluster)
    with_gpus = [group for group in cluster.groups if _has_gpus(group)]
    if not unit or (unit == CLUSTER and _has_gpus(cluster.head)):
        return
    if not with_gpus:
        yield Fault(_annotation(cluster), "no effect: no worker group has GPUs or resource claims")
    elif unit == REPLICA and all(group.hosts == 1 for group in with_gpus):
        text = "no effect: groups with GPUs have one host; write worker-group, or set numOfHosts"
        yield Fault(_annotation(cluster), text)


def compute_domain_head_outside(cluster: Cluster) -> Iterator[Fault]:
    """A head with GPUs in a cluster whose workers are in ComputeDomains.

    The GPUs of the head do not share memory with those of the workers, and work that spans both
    falls back to the network.

    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html
    """
    if _unit(cluster) not in ("", CLUSTER) and _has_gpus(cluster.head):
        text = "the head has GPUs and is outside: write cluster, or take the GPUs from the head"
        yield Fault(_annotation(cluster), text)


def compute_domain_claimed(cluster: Cluster) -> Iterator[Fault]:
    """A claim of a ComputeDomain in a template, together with the annotation that adds one.

    A node is in one ComputeDomain at a time, so such pods keep their own claim and get no other.

    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html
    """
    for group in cluster.everyone if _unit(cluster) else ():
        if has_own(_claims(group)):
            text = f"claims a ComputeDomain already: remove it or {COMPUTE_DOMAIN.annotation}"
            yield Fault(group.pod / "resourceClaims", text)


def compute_domain_shared_node(cluster: Cluster) -> Iterator[Fault]:
    """Pods of a ComputeDomain that must share a node.

    A node is in one ComputeDomain at a time and has one channel for one pod, so the webhook places
    these pods on separate nodes. With an affinity for the same node, they stay Pending.

    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html
    """
    for group in cluster.groups if _unit(cluster) else ():
        field = group.pod / "affinity" / "podAffinity"
        for term in (field / "requiredDuringSchedulingIgnoredDuringExecution").items():
            key = term / "topologyKey"
            if key.text == names.LABEL_HOSTNAME and _has_gpus(group):
                yield Fault(key, "pods of a ComputeDomain never share a node: remove this term")


def _unit(cluster: Cluster) -> str:
    value = COMPUTE_DOMAIN.read(cluster.annotations)
    return "" if COMPUTE_DOMAIN.problem(value) else value


def _annotation(cluster: Cluster) -> Field:
    return cluster.annotation(COMPUTE_DOMAIN.annotation)


def _has_gpus(group: Group) -> bool:
    return group.count(GPU) > 0 or bool(_claims(group))


def _claims(group: Group) -> list[ResourceClaim]:
    return [
        ResourceClaim((each / "name").text, (each / "resourceClaimTemplateName").text)
        for each in (group.pod / "resourceClaims").items()
    ]
