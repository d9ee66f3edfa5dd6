"""Objects that have to be read from the API server before a review can be decided, because the
watches may be behind.
"""

from typing import Final

from msgspec import Struct

from webhook.groups.identity import GroupKey

SILENCE_SECONDS: Final = 5.0
"""A watch of pods or RayClusters without events for longer counts as stale; its objects are read
live.
"""


class ReadCluster(Struct, frozen=True, gc=False):
    """The RayCluster of a pod is not known under this uid, its watch is stale, or its known state
    would cause a denial.
    """

    namespace: str
    name: str
    uid: str

    @property
    def reason(self) -> str:
        return f"RayCluster {self.namespace}/{self.name} with uid {self.uid or '?'} is not known"


class ReadGroup(Struct, frozen=True, gc=False):
    """A pod would start a replica above the desired number of a worker group: read its pods, and
    its RayCluster `cluster`.
    """

    cluster: str
    key: GroupKey

    @property
    def reason(self) -> str:
        return (
            f"worker group {self.key.group} of RayCluster {self.key.namespace}/{self.cluster} "
            "has no free index in the cache"
        )


class ReadClusters(Struct, frozen=True, gc=False):
    """The watch of RayClusters is stale, or the known RayClusters of a namespace would cause a
    denial.
    """

    namespace: str

    @property
    def reason(self) -> str:
        return f"the cached RayClusters of namespace {self.namespace} may be stale"


Read = ReadCluster | ReadGroup | ReadClusters
