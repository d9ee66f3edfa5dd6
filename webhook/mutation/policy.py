"""Policy: what the mutators need to know of the installation and of the API server, beside the pod."""

from typing import Final, Literal

from msgspec import Struct

ResizeScope = Literal["listed", "all", "none"]

ApartFrom = Literal["all", "own"]


class Policy(Struct, frozen=True, gc=False):
    """What is the same for all pods.

    `pod_groups` tells whether the API server serves PodGroups: one that does not drops `spec.schedulingGroup` without a word.
    `published` tells whether PodGroups are made by this webhook. `resize` says which pods get a resize policy: those of
    groups that are listed in `ray.io/ippr`, all, or none. `apart` says from the replicas of which namespaces those of a pod are
    kept apart: all, or its own.
    """

    pod_groups: bool = True
    published: bool = True
    resize: ResizeScope = "listed"
    apart: ApartFrom = "all"


DEFAULT_POLICY: Final = Policy()
"""That of a cluster with everything on, as files stand for it."""
