"""The survey: the picture of a world, kept up to date by examining only what may have changed."""

from collections.abc import Collection, Mapping
from typing import Final

from webhook.diagnostics import ids, report
from webhook.diagnostics.assigned_pods import Cluster, stand
from webhook.diagnostics.diagnosis import Moment, Trouble
from webhook.diagnostics.examination import examine
from webhook.diagnostics.live_objects import LivePod
from webhook.diagnostics.memo import Memory
from webhook.diagnostics.object_cache import ObjectCache
from webhook.diagnostics.observation import Lookups
from webhook.groups.group_config import facts_of

RESTLESS_SECONDS: Final = 5.0
"""How often a RayCluster is examined that time alone may change at any moment."""
QUIET_SECONDS: Final = 900.0
"""How often every other one is, besides when something of it changes or a symptom begins to
count."""


class Examiner:
    """Keeps `clusters`, the pictures of RayClusters by uid, and `troubles`, which are none's."""

    def __init__(self, world: ObjectCache) -> None:
        self.world = world
        world.begin()
        self.clusters: dict[str, report.Cluster] = {}
        self.troubles: tuple[Trouble, ...] = ()
        self._next: dict[str, float] = {}
        self._memories: dict[str, Memory] = {}

    @property
    def remembered(self) -> int:
        """How many replicas needed no new examination of what they were told."""
        return sum(memory.hits for memory in self._memories.values())

    @property
    def worked_out(self) -> int:
        """How many replicas did."""
        return sum(memory.misses for memory in self._memories.values())

    def due(self, now: float) -> list[str]:
        """Return the uids of the RayClusters that have to be examined, gone ones among them."""
        world = self.world
        late = [uid for uid, due in self._next.items() if now >= due]
        return list(dict.fromkeys((*world.take_changed(), *late)))

    def examine_installation(self, now: float) -> None:
        """Examine what belongs to no RayCluster, when it may have changed."""
        if self.world.installation:
            self.troubles = ()
            self.troubles = examine(self.world.beside(), now).troubles
            self.world.installation = False

    def examine(self, uid: str, now: float) -> bool:
        """Examine a RayCluster; tell whether its picture is another one by now, or it is gone."""
        live = self.world.clusters.get(uid)
        if live is None:
            self._next.pop(uid, None)
            self._memories.pop(uid, None)
            return self.clusters.pop(uid, None) is not None
        memory = self._memories.setdefault(uid, Memory())
        memory.begin(facts_of(live, ignoring=self.world.ignoring))
        around, ends, at = self.world.around(live), self.world.ends(live), Moment(now)
        (picture,) = examine(around, now, tell=memory.tell, ends=ends, at=at).clusters
        return self._show(uid, picture, at)

    def fail(self, uid: str, why: str, now: float) -> bool:
        """Show nothing of a RayCluster but why it could not be examined; tell whether that is new.
        What was true of it before may not be any more.
        """
        live = self.world.clusters.get(uid)
        if live is None:
            return self.examine(uid, now)
        self._memories.pop(uid, None)
        place = live.metadata.namespace or "", live.metadata.name or ""
        head = report.Host(0, report.UNKNOWN)
        return self._show(uid, report.Cluster(*place, head, (), uid=uid, failure=why), Moment(now))

    def catch_up(self, now: float) -> None:
        """Examine all that is due."""
        self.examine_installation(now)
        for uid in self.due(now):
            self.examine(uid, now)

    def picture(
        self, now: float, namespaces: Collection[str] | None, unread: Mapping[str, str]
    ) -> report.ClusterReport:
        """Return the picture of some namespaces, or of all with None, by namespace and name.

        What belongs to no namespace is only part of the picture of all.
        """
        seen = [
            each
            for each in self.clusters.values()
            if namespaces is None or each.namespace in namespaces
        ]
        seen.sort(key=lambda cluster: (cluster.namespace, cluster.name))
        troubles = self.troubles if namespaces is None else ()
        return report.ClusterReport(now, tuple(seen), troubles, dict(unread))

    def standing(self, uid: str, now: float) -> Cluster | None:
        """Return what stands of a RayCluster."""
        live = self.world.clusters.get(uid)
        if live is None:
            return None
        observed = self.world.around(live)
        (cluster,) = stand(observed, Lookups(observed, now, self.world.ends(live)))
        return cluster

    def named(self, namespace: str, name: str) -> str:
        """Return the uid of the RayCluster of a name; nothing when there is none."""
        found = self.world.clusters.of(namespace)
        return next((each.metadata.uid or "" for each in found if each.metadata.name == name), "")

    def pod(self, namespace: str, name: str) -> LivePod | None:
        """Return a pod of Ray."""
        for pod in self.world.pods.all:
            if (pod.metadata.namespace, pod.metadata.name) == (namespace, name):
                return pod
        return None

    def _show(self, uid: str, picture: report.Cluster, at: Moment) -> bool:
        seconds = RESTLESS_SECONDS if _restless(picture) else QUIET_SECONDS
        self._next[uid] = min(at.next, at.now + seconds)
        if self.clusters.get(uid) == picture:
            return False
        self.clusters[uid] = picture
        return True


def _restless(cluster: report.Cluster) -> bool:
    """Return whether time changes more of a RayCluster than which symptoms count: it could not be
    examined, a pod of it is to end by some time, or a refusal is forgotten when it is old.
    """
    refused = any(each.id == ids.POD_REFUSED for each in cluster.troubles)
    return bool(cluster.failure or cluster.leaving or refused)
