"""Rules of network policies, which KubeRay creates for the head and the worker groups."""

from collections.abc import Iterator
from typing import Final

from webhook.api.formats import is_dns_label
from webhook.api.review import FORBIDDEN, NOT_FOUND
from webhook.validation.cluster import Cluster
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.rule import KUBERAY, deny

# Mode -> the rules without effect, because that direction is open.
_OPEN: Final = {"DenyAllEgress": "ingressRules", "DenyAllIngress": "egressRules"}


def network_policy_unused_rules(cluster: Cluster) -> Iterator[Fault]:
    """Rules for a direction that the mode leaves open.

    The rules would close the direction, or have no effect, so KubeRay refuses the RayCluster.

    KubeRay validation.go (`validateNetworkPolicy`)
    """
    policy = _policy(cluster)
    mode = (policy / "mode").text
    name = _OPEN.get(mode)
    for holder in (policy / "head", policy / "worker", *(policy / "workerGroups").items()):
        if name and (holder / name).size:
            yield Fault(
                holder / name,
                f"{name} has no effect with mode {mode}: remove it, or write mode DenyAll",
                FORBIDDEN,
            )


def network_policy_group_name(cluster: Cluster) -> Iterator[Fault]:
    """A worker group whose name cannot be part of a policy's name.

    KubeRay names the policy of a group after the group, so with network policies group names are in
    lower case and without dots.

    KubeRay validation.go (`validateNetworkPolicy`)
    """
    if _policy(cluster).given:
        for group in cluster.groups:
            if group.name and not is_dns_label(group.name):
                yield Fault(
                    group.field / "groupName",
                    f"groupName is {group.name[:63]!r}: with networkPolicy, use "
                    "lower-case letters, digits and '-'",
                )


def network_policy_group_unknown(cluster: Cluster) -> Iterator[Fault]:
    """Rules for a worker group that the cluster does not have.

    The intended group would have no rules, so KubeRay refuses the RayCluster.

    KubeRay validation.go (`validateNetworkPolicy`)
    """
    known = {group.name for group in cluster.groups}
    for entry in (_policy(cluster) / "workerGroups").items():
        name = entry / "groupName"
        if name.text not in known:
            yield Fault(
                name,
                f"no worker group is named {name.text[:63]!r}: write the name of one",
                NOT_FOUND,
            )


def _policy(cluster: Cluster) -> Field:
    return cluster.field / "networkPolicy"


NETWORK_POLICY: Final = (
    deny(network_policy_unused_rules, by=KUBERAY),
    deny(network_policy_group_name, by=KUBERAY),
    deny(network_policy_group_unknown, by=KUBERAY),
)
