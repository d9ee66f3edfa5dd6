"""Policy: what the mutators need to know of the installation and of the API server,
beside the pod.
"""

from typing import Final, Literal

from msgspec import Struct

ResizeScope = Literal["listed", "all", "none"]

ApartFrom = Literal["all", "own"]


class Policy(Struct, frozen=True, gc=False):
    """What is the same for all pods.

    `pod_groups` tells whether the API server serves PodGroups: one that does not drops
    `spec.schedulingGroup` without a word. `published` tells whether PodGroups are made by this
    webhook. `resize` says which pods get a resize policy: those of groups that are listed in
    `ray.io/ippr`, all, or none. `apart` says from the replicas of which namespaces those of a pod
    are kept apart: all, or its own. `drain_seconds` is how long workers of RayClusters drain that
    do not say so themselves; 0 is not at all. `zones` tells whether Ray is told the zone and the
    region of its nodes, which the labels of pods say on Kubernetes 1.35 and later. `services`
    tells whether this webhook creates the headless services that KubeRay does not.
    `no_domains` says why no one keeps ComputeDomains, so that pods that name one would stay
    pending; empty where they are kept. `node_labels` are the labels of Nodes that are passed on
    to pods; None is all of them.
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
"""That of a cluster with everything on, as files stand for it; none says which Kubernetes it is."""
