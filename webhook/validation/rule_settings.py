"""Settings of the rules: enforcement actions, and the features of the KubeRay operator."""

from collections.abc import Container, Mapping
from pkgutil import get_data
from typing import Final, Protocol

import msgspec
from msgspec import Struct, field

from webhook.accelerators.devices import DEVICES, Devices
from webhook.accelerators.profiles import PROFILES, Profiles
from webhook.api.namespace_limits import NamespaceLimits
from webhook.validation.finding import KubeRay, Level


def parse_kuberay(text: str) -> KubeRay | None:
    """Return the release in `1.6` or `v1.6.2`, or None for an empty text. Raises ValueError."""
    if not text:
        return None
    major, _, rest = text.removeprefix("v").partition(".")
    return int(major), int(rest.partition(".")[0])


DEFAULT_GATES: Final[Mapping[KubeRay, Mapping[str, bool]]] = {
    release: gates
    for release_text, gates in msgspec.json.decode(
        get_data(__package__, "feature_gates.json") or b"", type=dict[str, dict[str, bool]]
    ).items()
    if (release := parse_kuberay(release_text))
}
"""The feature gates of each release with their defaults, written by `make kuberay`.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/pkg/features/features.go
"""


def default_gates(release: KubeRay | None) -> Mapping[str, bool]:
    """Return the gates of a release, of the nearest known one before it, or of the newest."""
    releases = [candidate for candidate in DEFAULT_GATES if release is None or candidate <= release]
    return DEFAULT_GATES[max(releases, default=min(DEFAULT_GATES))]


GATES: Final[Mapping[str, bool]] = {
    name: default_gates(None).get(name, False)
    for name in (
        "RayJobDeletionPolicy",
        "RayServiceIncrementalUpgrade",
        "RayClusterNetworkPolicy",
        "GCSFaultToleranceEmbeddedStorage",
        "RayClusterMTLS",
        "RayClusterHistoryServer",
        "KubernetesWAS",
    )
}
"""The gates that rules depend on, with the defaults of the newest release."""

OPERATORS: Final = (
    "system:serviceaccount:ray-system:kuberay-operator",
    "system:serviceaccount:default:kuberay-operator",
)
"""Service accounts of the KubeRay operator by its two installation methods."""


_AT_LEAST: Final = (1, 6)
"""The minimum release of KubeRay that is assumed if the release is unknown."""


class Namespaces(Protocol):
    """The limits of namespaces, and the pods in them."""

    def limits(self, namespace: str) -> NamespaceLimits | None:
        """Return the ResourceQuotas and LimitRanges of a namespace, None without any."""

    def pods(self, namespace: str, cluster: str, group: str) -> int:
        """Return the number of pods of a group; that of the head is `headgroup`."""


class FixedNamespaces(Struct, frozen=True):
    """The limits of namespaces that were read once, and the numbers of pods by namespace,
    RayCluster and group.
    """

    by_name: Mapping[str, NamespaceLimits]
    numbers: Mapping[tuple[str, str, str], int] = field(default_factory=dict)

    def limits(self, namespace: str) -> NamespaceLimits | None:
        return self.by_name.get(namespace)

    def pods(self, namespace: str, cluster: str, group: str) -> int:
        return self.numbers.get((namespace, cluster, group), 0)


class RuleSettings(Struct, frozen=True):
    """Enforcement actions by rule id and operator feature gates by name, each only if it differs
    from its default.

    `time_zones` are the valid time zones of a RayCronJob; if empty, only the syntax is checked.
    `pod_groups` is whether the API server serves PodGroups, or None if unknown: then no rule
    reports it. `no_domains` is the reason why ComputeDomains are not managed, or empty.
    `repairs` is whether the controller repairs replicas, or None if unknown. `node_labels` are the
    Node labels that are copied to Ray nodes; None means all. `operators` are the accounts of
    KubeRay's operator, and `kuberay` is its release, if known; otherwise the rules apply to the
    newest release, and only warn if the release before it differs. `kubernetes` is the release of
    the API server, or None if unknown: then no rule reports it. `ignoring` is whether a label
    may exempt a RayCluster. `raise_wait_gcs_ready` is whether the webhook raises the resources of
    the container that waits for the head. `namespaces` has the limits of namespaces, or is None if
    unknown. `devices` and `profiles` are those that pods can request.
    """

    levels: Mapping[str, Level] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    time_zones: Container[str] = frozenset()
    pod_groups: bool | None = None
    no_domains: str = ""
    repairs: bool | None = None
    node_labels: frozenset[str] | None = None
    operators: frozenset[str] = frozenset()
    kuberay: KubeRay | None = None
    kubernetes: tuple[int, int] | None = None
    ignoring: bool = True
    raise_wait_gcs_ready: bool = True
    namespaces: Namespaces | None = None
    devices: Devices = DEVICES
    profiles: Profiles = PROFILES

    def enabled(self, gate: str) -> bool:
        """Return whether the operator runs with a feature gate on."""
        return self.gates.get(gate, default_gates(self.kuberay).get(gate, False))

    def since(self, release: KubeRay) -> bool | None:
        """Return whether KubeRay has at least this release; None if unknown."""
        if self.kuberay is None:
            return True if release <= _AT_LEAST else None
        return self.kuberay >= release


DEFAULTS: Final = RuleSettings()
