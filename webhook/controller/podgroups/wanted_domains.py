"""The ComputeDomains that a RayCluster should have. Each has the lifecycle of a PodGroup without a
Workload and without a count.
"""

from collections.abc import Iterator

from webhook.groups.annotations import CLUSTER, WORKER_GROUP
from webhook.groups.compute_domains import domain_name
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.pod_groups import (
    BASIC,
    Desired,
    Occupied,
    PodGroup,
)


def desired_domains(facts: RayClusterConfig, taken: Occupied) -> Desired:
    """Return the desired ComputeDomains: of replicas with pods, and of requested replicas."""
    wanted = [PodGroup(name, "", BASIC, "") for name in _names(facts, taken)]
    return Desired(facts.uid, pod_groups=tuple(wanted))


def _names(facts: RayClusterConfig, taken: Occupied) -> Iterator[str]:
    domains, ids = facts.domains, (facts.name, facts.uid)
    if domains.unit == CLUSTER and (domains.groups or domains.head):
        yield domain_name(CLUSTER, *ids)
    elif domains.unit == WORKER_GROUP:
        for group in domains.groups:
            yield domain_name(WORKER_GROUP, *ids, group)
    else:
        for group, replicas in zip(facts.groups, taken, strict=True):
            for replica in sorted(replicas if group in domains.groups else ()):
                if replica:
                    yield domain_name(domains.unit, *ids, group, replica)
