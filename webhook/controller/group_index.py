"""The index of worker groups, derived from the object store.

The handlers of the store keep the index up to date; the index itself contains no objects.
"""

import msgspec

from webhook.api import names
from webhook.api.review import Denied
from webhook.controller.work_queue import Key, WorkQueue
from webhook.diagnostics.live_objects import LiveCluster, LivePod
from webhook.diagnostics.object_cache import ObjectCache
from webhook.groups.google_labels import seat_of
from webhook.groups.group_config import ClusterIndex, facts_of
from webhook.groups.identity import GroupKey
from webhook.groups.identity_index import Member, Membership


class GroupIndex:
    """The configuration of RayClusters, and the replica and host indexes of their pods.

    A terminating pod has none, and a live pod keeps its own when its labels are removed.
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

    def _take_cluster(self, old: LiveCluster | None, new: LiveCluster | None) -> None:
        facts = facts_of(cluster) if (cluster := new or old) is not None else None
        if facts is None:
            return
        key = facts.namespace, facts.name
        before = self.clusters.get(*key)
        if new is not None:
            self.clusters.put(facts)
        else:
            self.clusters.remove(*key, facts.uid)
        if self.clusters.get(*key) is not before:
            self._add(key, changed=True)

    def _take_pod(self, old: LivePod | None, new: LivePod | None) -> None:
        if (pod := new or old) is None:
            return
        uid = pod.metadata.uid or ""
        before, found = self.members.get(uid), self._member(new) if new is not None else None
        if found is not None:
            self.members.put(uid, found)
        else:
            self.members.remove(uid)
        if found != before and pod.controller is not None:
            self._add((pod.metadata.namespace or "", pod.controller.name), changed=False)

    def _add(self, key: Key, *, changed: bool) -> None:
        for queue in self._queues:
            queue.add(key, changed=changed)

    def _member(self, pod: LivePod) -> Member | None:
        """Return the group of a worker pod and its indexes, None for any other pod.

        A pod whose labels and owner disagree is in no group: KubeRay does not count such a pod
        either.
        """
        labels, owner = pod.labels, pod.controller
        group = labels.get(names.LABEL_GROUP)
        if (
            pod.leaves
            or labels.get(names.LABEL_NODE_TYPE) != names.NODE_TYPE_WORKER
            or not group
            or owner is None
            or owner.name != labels.get(names.LABEL_CLUSTER)
        ):
            return None
        key = GroupKey(pod.metadata.namespace or "", owner.uid, group)
        before = self.members.get(pod.metadata.uid or "")
        seat = before.seat if before is not None and before.key == key else None
        try:
            seat = seat_of(group, labels, lambda: pod.spec, None) or seat
        except (Denied, msgspec.DecodeError, UnicodeDecodeError):
            self.malformed += 1
        return None if seat is None else Member(key, seat)
