"""Rules of token authentication."""

from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.api.release import parse_release
from webhook.api.review import FORBIDDEN
from webhook.validation.cluster import Cluster
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.rule import KUBERAY, deny

TOKEN_SINCE: Final = (2, 52)
KUBERNETES_SINCE: Final = (2, 55)


def auth_ray_too_old(cluster: Cluster) -> Iterator[Fault]:
    """Token authentication with a Ray release that does not support it, or without a release.

    KubeRay reads `rayVersion`, and refuses the RayCluster rather than run it without
    authentication.

    KubeRay validation.go (`ValidateRayClusterSpec`)
    """
    if not _token(cluster):
        return
    field = cluster.field / "rayVersion"
    release = parse_release(field.text)
    kubernetes = _kubernetes(cluster).flag
    if release is None or release < (KUBERNETES_SINCE if kubernetes else TOKEN_SINCE):
        shown = repr(field.text[:20]) if field.text else "not set"
        minimum, what = (
            ("2.55.0", "enableK8sTokenAuth") if kubernetes else ("2.52.0", "authOptions.mode token")
        )
        yield Fault(
            field, f"rayVersion is {shown}, but {what} needs {minimum}: raise it, or remove that"
        )


def auth_kubernetes_conflict(cluster: Cluster) -> Iterator[Fault]:
    """Authentication by Kubernetes tokens without mode `token`, or with a secret.

    The settings contradict each other, so KubeRay refuses the RayCluster.

    KubeRay validation.go (`ValidateRayClusterSpec`)
    """
    if _kubernetes(cluster).flag:
        secret = cluster.field / "authOptions" / "secretName"
        if not _token(cluster):
            yield Fault(
                cluster.field / "authOptions" / "mode",
                "mode is not token, but enableK8sTokenAuth is true: write token, or remove that",
            )
        elif secret.text:
            yield Fault(
                secret,
                "secretName is set beside enableK8sTokenAuth: remove one of the two",
                FORBIDDEN,
            )


def auth_kubernetes_unsupported(cluster: Cluster) -> Iterator[Fault]:
    """Authentication by Kubernetes tokens in a RayJob or RayService.

    KubeRay supports it for RayClusters only, and refuses the object.

    KubeRay validation.go (`ValidateRayJobSpec`,
    `ValidateRayServiceSpec`)
    """
    embedded = cluster.field.token in ("rayClusterSpec", "rayClusterConfig")
    if (
        embedded
        and cluster.owner in (names.RAYJOB_KIND, names.RAYSERVICE_KIND)
        and _kubernetes(cluster).flag
    ):
        yield Fault(
            _kubernetes(cluster),
            f"a {cluster.owner} cannot have enableK8sTokenAuth: remove it, and use secretName",
            FORBIDDEN,
        )


def _token(cluster: Cluster) -> bool:
    return (cluster.field / "authOptions" / "mode").text == "token"


def _kubernetes(cluster: Cluster) -> Field:
    return cluster.field / "authOptions" / "enableK8sTokenAuth"


AUTH: Final = (
    deny(auth_ray_too_old, by=KUBERAY),
    deny(auth_kubernetes_conflict, by=KUBERAY),
    deny(auth_kubernetes_unsupported, by=KUBERAY),
)
