"""The upgrade strategy of a RayCluster."""

from collections.abc import Iterator
from typing import Final

from webhook.kube import names
from webhook.kube.review import FORBIDDEN, NOT_SUPPORTED
from webhook.validation.change import NONE, RECREATE
from webhook.validation.cluster import Cluster
from webhook.validation.finding import Fault
from webhook.validation.rule import deny


def upgrade_strategy_unknown(cluster: Cluster) -> Iterator[Fault]:
    """An upgrade strategy that KubeRay does not have.

    KubeRay refuses the whole RayCluster and creates no pods.

    KubeRay validation.go (`ValidateRayClusterUpgradeOptions`)
    """
    kind = cluster.field / "upgradeStrategy" / "type"
    if kind.given and kind.text not in (RECREATE, NONE):
        yield Fault(kind, f"{str(kind.value)[:40]!r}: write {RECREATE} or {NONE}", NOT_SUPPORTED)


def upgrade_strategy_not_own(cluster: Cluster) -> Iterator[Fault]:
    """An upgrade strategy on a RayCluster that a RayJob or RayService owns.

    The owner decides when its cluster is replaced, so KubeRay refuses a cluster that has a strategy
    of its own.

    KubeRay validation.go (`ValidateRayClusterUpgradeOptions`)
    """
    kind = cluster.field / "upgradeStrategy" / "type"
    if kind.given and cluster.owner in (names.RAYJOB_KIND, names.RAYSERVICE_KIND):
        yield Fault(
            kind, f"remove it: the {cluster.owner} that owns this cluster replaces it", FORBIDDEN
        )


UPGRADE: Final = (
    deny(upgrade_strategy_unknown),
    deny(upgrade_strategy_not_own),
)
