"""What the owner of a cluster decides about the rules: levels, and what their KubeRay operator can
do.
"""

from collections.abc import Container, Mapping
from typing import Final

from msgspec import Struct, field

from webhook.validation.finding import KubeRay, Level

# KubeRay 1.7's defaults, of the gates that its own checks depend on.
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/pkg/features/features.go
GATES: Final[Mapping[str, bool]] = {
    "RayJobDeletionPolicy": True,
    "RayServiceIncrementalUpgrade": True,
    "RayClusterNetworkPolicy": False,
    "GCSFaultToleranceEmbeddedStorage": False,
    "RayClusterMTLS": False,
    "RayClusterHistoryServer": False,
    "KubernetesWAS": False,
}


# Gates that were off by default before a release.
_OFF_BEFORE: Final[Mapping[str, tuple[int, int]]] = {
    "RayJobDeletionPolicy": (1, 6),
    "RayServiceIncrementalUpgrade": (1, 7),
}


_AT_LEAST: Final = (1, 6)
"""The release that KubeRay is taken to have at least, where it is unknown it."""


class RuleSettings(Struct, frozen=True):
    """Levels by rule id and operator feature gates by name, each where it differs from its default.

    `time_zones` are the names that the time zone of a RayCronJob may have; when empty, only its
    shape is checked. `pod_groups` tells whether the API server serves PodGroups; None, where no one
    knows, says nothing about it. `no_domains` says why no one keeps ComputeDomains, or nothing.
    `node_labels` are the labels of Nodes that are passed on; None is all of them. `operators` are
    the accounts of KubeRay's operator, and `kuberay` is its release, where it is known; where it is
    not, the rules speak for the newest, and only warn where the one before it differs. `ignoring`
    tells whether a RayCluster may be left alone by its label.
    """

    levels: Mapping[str, Level] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    time_zones: Container[str] = frozenset()
    pod_groups: bool | None = None
    no_domains: str = ""
    node_labels: frozenset[str] | None = None
    operators: frozenset[str] = frozenset()
    kuberay: KubeRay | None = None
    ignoring: bool = True

    def enabled(self, gate: str) -> bool:
        """Return whether the operator runs with a feature gate on."""
        since = _OFF_BEFORE.get(gate)
        old = since is not None and self.kuberay is not None and self.kuberay < since
        return self.gates.get(gate, GATES[gate] and not old)

    def since(self, release: KubeRay) -> bool | None:
        """Return whether KubeRay is of this release or a later one; None where it is unknown."""
        if self.kuberay is None:
            return True if release <= _AT_LEAST else None
        return self.kuberay >= release


def parse_kuberay(text: str) -> KubeRay | None:
    """Return the release in a text such as `1.6` or `v1.6.2`, or None. Raises ValueError."""
    if not text:
        return None
    major, _, rest = text.removeprefix("v").partition(".")
    return int(major), int(rest.partition(".")[0])


DEFAULTS: Final = RuleSettings()
