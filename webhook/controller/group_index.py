"""The index of worker groups, derived from the object store.

The handlers of the store keep the index up to date; the index itself contains no objects.
"""

from webhook.api import names
from webhook.controller.work_queue import Key, WorkQueue
from webhook.groups.group_config import ClusterIndex, read_cluster_config
from webhook.groups.identity import GroupKey
from webhook.groups.identity_index import Member, Membership
from webhook.groups.identity_labels import member_of
from webhook.objects.live_objects import LiveCluster, LivePod
from webhook.objects.object_cache import ObjectCache


class GroupIndex:
    """The configuration of RayClusters, and the replica and host indexes of their pods.

    `malformed` counts changes of pods whose labels are no indexes; the process that answers reviews
    logs them.
    """

    def __init__(self, object_cache: ObjectCache) -> None:
        self.clusters = ClusterIndex(ignoring=object_cache.ignoring)
        self.members = Membership()
        self.malformed = 0
        self._queues: list[WorkQueue] = []
        object_cache.clusters.subscribe(self._take_cluster)
        object_cache.pods.subscribe(self._take_pod)

    def subscribe(self, queue: WorkQueue) -> None:
        """Add every RayCluster whose configuration or indexes change to a queue."""
        self._queues.append(queue)

    def _take_cluster(self, _uid: str, old: LiveCluster | None, new: LiveCluster | None) -> None:
        cluster_config = (
            read_cluster_config(cluster) if (cluster := new or old) is not None else None
        )
        if cluster_config is None:
            return
        key = cluster_config.namespace, cluster_config.name
        old_config = self.clusters.get(*key)
        if new is not None:
            self.clusters.put(cluster_config)
        else:
            self.clusters.remove(*key, cluster_config.uid)
        # An equal configuration keeps its object, so that a change of the status alone adds
        # nothing.
        if self.clusters.get(*key) is not old_config:
            self._add(key, changed=True)

    def _take_pod(self, uid: str, old: LivePod | None, new: LivePod | None) -> None:
        if (pod := new or old) is None:
            return
        old_member, member = self.members.get(uid), self._member(new) if new is not None else None
        if member is not None:
            self.members.put(uid, member)
        else:
            self.members.remove(uid)
        if member != old_member and pod.controller is not None:
            self._add((pod.metadata.namespace or "", pod.controller.name), changed=False)

    def _add(self, key: Key, *, changed: bool) -> None:
        for queue in self._queues:
            queue.add(key, changed=changed)

    def _member(self, pod: LivePod) -> Member | None:
        """Return the group of a worker pod and its indexes, None for any other pod."""
        if pod.labels.get(names.LABEL_NODE_TYPE) != names.NODE_TYPE_WORKER:
            return None
        member = member_of(pod, self.members.get(pod.metadata.uid or ""), self._reject)
        return member if member is not None and member.identity is not None else None

    def _reject(self, _key: GroupKey, _error: Exception) -> None:
        self.malformed += 1
