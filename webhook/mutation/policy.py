"""Settings of the mutators, which depend on the installation and the API server."""

from typing import Final, Literal

from msgspec import Struct

ResizeScope = Literal["listed", "all", "none"]

ApartFrom = Literal["all", "own"]


class Policy(Struct, frozen=True, gc=False):
    """Settings for all pods.

    `pod_groups`: the API server serves PodGroups; otherwise it drops `spec.schedulingGroup`
    silently. `published`: this webhook creates the PodGroups. `resize`: which pods get a resize
    policy: those of groups in `ray.io/ippr`, all, or none. `apart`: the namespaces of replicas from
    which a pod has exclusive placement: all, or its own. `drain_seconds`: the drain timeout of
    workers of RayClusters without the annotation; 0 disables the drain. `zones`: Ray nodes get zone
    and region, which are labels of pods on Kubernetes 1.35 and later. `services`: this webhook
    creates the headless services that KubeRay does not. `no_domains`: why ComputeDomains are not
    created, so that pods that refer to one would stay pending; empty if they are. `node_labels`:
    the labels of Nodes that are copied to pods; None for all.
    """

    pod_groups: bool = True
    published: bool = True
    resize: ResizeScope = "listed"
    apart: ApartFrom = "all"
    drain_seconds: int = 0
    zones: bool = False
    services: bool = False
    no_domains: str = ""
    node_labels: frozenset[str] | None = None


DEFAULT_POLICY: Final = Policy()
"""The settings for files: every feature is on, and the Kubernetes version is unknown."""
