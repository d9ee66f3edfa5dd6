"""Reads: what has to be read from the API server before a review can be decided, as the watches may
not have told it yet.
"""

from typing import Final

from msgspec import Struct

from webhook.groups.identity import GroupKey

SILENCE_SECONDS: Final = 5.0
"""What a watch delivered is not believed when nothing came for longer, be it of pods or of
RayClusters: it is read live first.
"""


class ReadCluster(Struct, frozen=True, gc=False):
    """The RayCluster of a pod is not known under this uid, its watch is silent, or what is known of
    it would be the reason for a denial.
    """

    namespace: str
    name: str
    uid: str

    @property
    def reason(self) -> str:
        """Why it has to be read."""
        return f"RayCluster {self.namespace}/{self.name} with uid {self.uid or '?'} is not known"


class ReadGroup(Struct, frozen=True, gc=False):
    """A replica beyond the desired count of a worker group would be opened: read its pods, and its
    RayCluster `cluster`.
    """

    cluster: str
    key: GroupKey

    @property
    def reason(self) -> str:
        """Why it has to be read."""
        return (
            f"worker group {self.key.group} of RayCluster {self.key.namespace}/{self.cluster} "
            "looks full"
        )


class ReadClusters(Struct, frozen=True, gc=False):
    """The watch of RayClusters is silent, or what is known of those of a namespace would be the
    reason for a denial.
    """

    namespace: str

    @property
    def reason(self) -> str:
        """Why it has to be read."""
        return f"the RayClusters of namespace {self.namespace} are not known well enough"


Read = ReadCluster | ReadGroup | ReadClusters
