"""ComputeDomains: which pods of a RayCluster share one, and its name.

A ComputeDomain is a set of nodes whose GPUs access each other's memory over NVLink (IMEX).
https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html
"""

from typing import Final

from msgspec import Struct

from webhook.accelerators.devices import GPU, may_request
from webhook.api import names
from webhook.api.objects import RayCluster, ResourceClaim, TemplateSpec
from webhook.groups import scheduling_groups
from webhook.groups.annotations import CLUSTER, COMPUTE_DOMAIN, GRANULARITIES, REPLICA


class Domains(Struct, frozen=True, gc=False):
    """The ComputeDomains of a RayCluster: one for each `scope`, with the pods of `groups` and, if
    the scope is the whole cluster, a head with GPUs.
    """

    scope: str = ""
    groups: tuple[str, ...] = ()
    head: bool = False


NO_DOMAINS: Final = Domains()


def read_domains(cluster: RayCluster) -> Domains:
    """Return the ComputeDomains that a RayCluster requests; none for an unknown scope.

    Replicas of 1 host need no domain.
    """
    scope = COMPUTE_DOMAIN.read(cluster.metadata.annotations or {})
    if scope not in GRANULARITIES:
        return NO_DOMAINS
    return Domains(
        scope,
        tuple(
            [
                group.group_name
                for group in cluster.groups
                # GPUs of one node share memory without IMEX.
                if (scope != REPLICA or group.num_of_hosts > 1)
                and _takes_domain(group.template.spec)
            ]
        ),
        scope == CLUSTER and _takes_domain(cluster.spec.head_group_spec.template.spec),
    )


def _takes_domain(spec: TemplateSpec) -> bool:
    """Return whether pods have GPUs, by a resource or by claims, and no ComputeDomain of
    their own.
    """
    claims = spec.resource_claims or []
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    gpus = any(may_request(GPU, container.resources) for container in containers)
    return (gpus or bool(claims)) and not has_own(claims)


def has_own(claims: list[ResourceClaim]) -> bool:
    """Return whether a pod refers to a ComputeDomain itself. A claim does not contain its device
    class, so names as in NVIDIA's documentation count: those with `compute-domain` or `imex`.
    """
    keywords = f"{names.COMPUTE_DOMAIN_KIND.lower()} compute-domain imex".split()
    claim_names = [
        f"{claim.name} {claim.resource_claim_template_name or ''}".lower() for claim in claims
    ]
    return any(keyword in claim_name for claim_name in claim_names for keyword in keywords)


def domain_name(scope: str, cluster: str, uid: str, group: str = "", replica: str = "") -> str:
    """Return the name of the ComputeDomain of a scope, and of its ResourceClaimTemplate.

    Names are never reused, so that no pod can claim a channel of a domain that is being deleted:
    the name of a replica is unique, and the other names depend on the uid of the RayCluster.
    """
    if scope == REPLICA:
        return scheduling_groups.replica_pod_group(cluster, group, replica)
    start = (
        scheduling_groups.cluster_pod_group(cluster)
        if scope == CLUSTER
        else scheduling_groups.group_pod_group(cluster, group)
    )
    return f"{start}-{scheduling_groups.digest(uid)}"
