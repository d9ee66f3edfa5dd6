"""Rules of token authentication, network policies and mutual TLS, which KubeRay configures."""

from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.api.formats import is_dns_label, shorten
from webhook.api.release import format_release, parse_release
from webhook.api.review import FORBIDDEN, NOT_FOUND
from webhook.validation.cluster import ClusterSpec
from webhook.validation.field import Field
from webhook.validation.finding import Fault

TOKEN_SINCE: Final = (2, 52)
KUBERNETES_SINCE: Final = (2, 55)


def auth_ray_too_old(cluster: ClusterSpec) -> Iterator[Fault]:
    """Token authentication with a Ray release that does not support it, or without a release.

    KubeRay reads `rayVersion`, and refuses the RayCluster rather than run it without
    authentication.
    """
    field = cluster.field / "rayVersion"
    release = parse_release(field.text)
    option, since = "authOptions.mode token", TOKEN_SINCE
    if _kubernetes(cluster).flag:
        option, since = "enableK8sTokenAuth", KUBERNETES_SINCE
    if _token(cluster) and (release is None or release < since):
        version_text = repr(shorten(field.text)) if field.text else "not set"
        needed = f"{option} needs {format_release(since)}.0"
        yield Fault(field, f"rayVersion is {version_text}, but {needed}: raise it, or remove that")


def auth_kubernetes_conflict(cluster: ClusterSpec) -> Iterator[Fault]:
    """Authentication by Kubernetes tokens without mode `token`, or with a secret.

    The settings contradict each other, so KubeRay refuses the RayCluster.
    """
    if _kubernetes(cluster).flag:
        secret = cluster.field / "authOptions" / "secretName"
        if not _token(cluster):
            message = (
                "mode is not token, but enableK8sTokenAuth is true: write token, or remove that"
            )
            yield Fault(cluster.field / "authOptions" / "mode", message)
        elif secret.text:
            message = "secretName is set beside enableK8sTokenAuth: remove one of the two"
            yield Fault(secret, message, FORBIDDEN)


def auth_kubernetes_unsupported(cluster: ClusterSpec) -> Iterator[Fault]:
    """Authentication by Kubernetes tokens in a RayJob or RayService.

    KubeRay supports it for RayClusters only, and refuses the object.
    """
    field = _kubernetes(cluster)
    if field.flag and cluster.field.token in ("rayClusterSpec", "rayClusterConfig"):
        message = f"a {cluster.owner} cannot have enableK8sTokenAuth: remove it, and use secretName"
        yield Fault(field, message, FORBIDDEN)


def _token(cluster: ClusterSpec) -> bool:
    return (cluster.field / "authOptions" / "mode").text == "token"


def _kubernetes(cluster: ClusterSpec) -> Field:
    return cluster.field / "authOptions" / "enableK8sTokenAuth"


# Mode -> the rules without effect, because that direction is open.
_OPEN: Final = {"DenyAllEgress": "ingressRules", "DenyAllIngress": "egressRules"}


def network_policy_unused_rules(cluster: ClusterSpec) -> Iterator[Fault]:
    """Rules for a direction that the mode leaves open.

    The rules would close the direction, or have no effect, so KubeRay refuses the RayCluster.
    """
    policy = _policy(cluster)
    mode = (policy / "mode").text
    name = _OPEN.get(mode, "")
    holders = (policy / "head", policy / "worker", *(policy / "workerGroups").items())
    for holder in holders if name else ():
        if (holder / name).size:
            message = f"{name} has no effect with mode {mode}: remove it, or write mode DenyAll"
            yield Fault(holder / name, message, FORBIDDEN)


def network_policy_group_name(cluster: ClusterSpec) -> Iterator[Fault]:
    """A worker group whose name cannot be part of a policy's name.

    KubeRay names the policy of a group after the group, so with network policies group names are in
    lower case and without dots.
    """
    if _policy(cluster).given:
        for group in cluster.groups:
            if group.name and not is_dns_label(group.name):
                advice = "with networkPolicy, use lower-case letters, digits and '-'"
                message = f"groupName is {shorten(group.name)!r}: {advice}"
                yield Fault(group.field / "groupName", message)


def network_policy_group_unknown(cluster: ClusterSpec) -> Iterator[Fault]:
    """Rules for a worker group that the cluster does not have.

    The intended group would have no rules, so KubeRay refuses the RayCluster.
    """
    group_names = {group.name for group in cluster.groups}
    for entry in (_policy(cluster) / "workerGroups").items():
        name = entry / "groupName"
        if name.text not in group_names:
            message = f"no worker group is named {shorten(name.text)!r}: write the name of one"
            yield Fault(name, message, NOT_FOUND)


def _policy(cluster: ClusterSpec) -> Field:
    return cluster.field / "networkPolicy"


_VOLUME: Final = "ray-tls"
_MOUNT_PATH: Final = "/etc/ray/tls"


def tls_set_by_hand(cluster: ClusterSpec) -> Iterator[Fault]:
    """TLS settings in a template or in the autoscaler's options, where KubeRay configures TLS.

    These settings would silently override KubeRay's, so KubeRay refuses the RayCluster.
    """
    if not (cluster.field / "tlsOptions" / "enabled").flag:
        return
    first = [group.first.field for group in cluster.every_group]
    for holder in (*first, cluster.options):
        for entry in (holder / "env").items():
            name = entry / "name"
            if name.text in names.TLS_VARIABLES:
                yield Fault(name, f"tlsOptions sets {name.text}: remove it", FORBIDDEN)
        for mount in (holder / "volumeMounts").items():
            if (mount / "name").text == _VOLUME or (mount / "mountPath").text == _MOUNT_PATH:
                message = f"tlsOptions mounts {_VOLUME} at {_MOUNT_PATH}: remove the mount"
                yield Fault(mount, message, FORBIDDEN)
