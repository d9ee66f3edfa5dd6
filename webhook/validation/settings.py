"""What the owner of a cluster decides about the rules: levels, and what their KubeRay operator can do."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from webhook.validation.finding import Level

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


class RuleSettings(Struct, frozen=True):
    """Levels by rule id and operator feature gates by name, each where it differs from its default.

    `time_zones` are the names that the time zone of a RayCronJob may have; when empty, only its shape is checked. `pod_groups`
    tells whether the API server serves PodGroups; None, where nobody knows, says nothing about it.
    `operators` are the accounts of KubeRay's operator.
    """

    levels: Mapping[str, Level] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    time_zones: frozenset[str] = frozenset()
    pod_groups: bool | None = None
    operators: frozenset[str] = frozenset()

    def enabled(self, gate: str) -> bool:
        """Tell whether the operator runs with a feature gate on."""
        return self.gates.get(gate, GATES[gate])


DEFAULTS: Final = RuleSettings()
