"""Rules of mutual TLS between Ray's pods, which KubeRay configures."""

from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.api.review import FORBIDDEN
from webhook.validation.cluster import Cluster
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.rule import KUBERAY, deny

_VOLUME: Final = "ray-tls"
_MOUNT_PATH: Final = "/etc/ray/tls"


def tls_set_by_hand(cluster: Cluster) -> Iterator[Fault]:
    """TLS settings in a template or in the autoscaler's options, where KubeRay configures TLS.

    These settings would silently override KubeRay's, so KubeRay refuses the RayCluster.

    KubeRay validation.go (`validateTLSOptions`)
    """
    if not (cluster.field / "tlsOptions" / "enabled").flag:
        return
    for holder in (
        *(group.first.field for group in cluster.everyone if group.first),
        cluster.options,
    ):
        for entry in (holder / "env").items():
            if (entry / "name").text in names.TLS_VARIABLES:
                yield Fault(
                    entry / "name", f"tlsOptions sets {(entry / 'name').text}: remove it", FORBIDDEN
                )
        for mount in (holder / "volumeMounts").items():
            if _taken(mount):
                yield Fault(
                    mount,
                    f"tlsOptions mounts {_VOLUME} at {_MOUNT_PATH}: remove the mount",
                    FORBIDDEN,
                )


def _taken(mount: Field) -> bool:
    return (mount / "name").text == _VOLUME or (mount / "mountPath").text == _MOUNT_PATH


TLS: Final = (deny(tls_set_by_hand, by=KUBERAY),)
