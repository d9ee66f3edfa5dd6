"""Evictions of worker pods: at most a number of replicas of a worker group is disrupted at once.

A PodDisruptionBudget counts pods, but all hosts of a replica stop working with one of them.
https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import islice
from typing import Any, Final, Protocol

from webhook.api import names
from webhook.api.review import ALLOWED, DISRUPTION, AdmissionRequest, Answer, Cause, NotNow
from webhook.groups.disruption import Eviction
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import MAX_HOSTS, GroupKey, Key
from webhook.groups.identity_index import Membership
from webhook.groups.required_reads import SILENCE_SECONDS, Read, ReadGroup

UNSEEN_SECONDS: Final = 30.0
"""Time after which an allowed eviction that the watch has not delivered counts as not made: a
PodDisruptionBudget may have refused it after the review.
"""

IN_PROGRESS_SECONDS: Final = 2.0
"""Time for which an allowed eviction may be in progress: the API server makes or refuses it in some
milliseconds.
"""

ReadInTime = Callable[[Awaitable[None]], Awaitable[None]]
"""Limits the time of a read. Raises NotNow."""


class GroupReader(Protocol):
    """Reads the pods of a worker group that the watch may not have delivered."""

    @property
    def now(self) -> Callable[[], float]:
        """Return the clock of `contact`."""

    async def read(self, what: Read) -> None:
        """Read a group with its RayCluster. Raises ClusterUnreadable."""

    def contact(self, key: Key) -> float:
        """Return the time of the last contact with the API server about a group."""


class AllowedEvictions:
    """The allowed evictions that the watch has not delivered yet: replica and time by group and
    uid.
    """

    def __init__(self, members: Membership, clock: Callable[[], float]) -> None:
        self._members = members
        self._clock = clock
        self._groups: dict[GroupKey, dict[str, tuple[int, float]]] = {}
        """Groups and pods are in the order of the newest eviction."""

    def add(self, eviction: Eviction) -> None:
        """Add an eviction. Drop at most two groups whose evictions are all too old, one more than
        was added.
        """
        now = self._clock()
        pods = self._groups.pop(eviction.key, {})
        pods.pop(eviction.uid, None)
        pods[eviction.uid] = eviction.replica, now
        self._groups[eviction.key] = pods
        for key, pods in list(islice(self._groups.items(), 2)):
            _, newest = next(reversed(pods.values()))
            if newest <= now - UNSEEN_SECONDS:
                del self._groups[key]

    def replicas(self, key: GroupKey, seconds: float) -> dict[int, bool]:
        """Return the replicas with such evictions, and whether one was allowed within `seconds`.
        Drop those of pods that are terminating or do not exist any more, and those that are too
        old.
        """
        pods, now = self._groups.get(key, {}), self._clock()
        for uid, (_, allowed_at) in list(pods.items()):
            if allowed_at <= now - UNSEEN_SECONDS or self._members.get(uid) is None:
                del pods[uid]
        if not pods:
            self._groups.pop(key, None)
        # The newest eviction of a replica is the last
        return {replica: allowed_at > now - seconds for replica, allowed_at in pods.values()}


class EvictionHandler:
    """Answers reviews of `pods/eviction`. `default` is the budget of RayClusters without their own;
    None for no limit.
    """

    def __init__(
        self,
        clusters: ClusterIndex,
        members: Membership,
        reader: GroupReader,
        default: int | None,
        clock: Callable[[], float],
    ) -> None:
        self._clusters = clusters
        self._members = members
        self._reader = reader
        self._default = default
        self._allowed = AllowedEvictions(members, clock)
        self.counts = {"allowed": 0, "refused": 0}
        """Responses for workers of groups with a budget."""

    async def __call__(self, request: AdmissionRequest[Any], in_time: ReadInTime) -> Answer:
        """Return the response; a worker without a budget is allowed at once. The group is read
        before a refusal, and if the watch is stale; if it cannot be read, the known state counts.
        """
        eviction = self._eviction(request)
        if eviction is None:
            return ALLOWED
        stale = self._reader.contact(eviction.key) < self._reader.now() - SILENCE_SECONDS
        unseen_seconds = UNSEEN_SECONDS
        if stale or self._refusal(eviction, unseen_seconds):
            # An error would end `kubectl drain`, which repeats only a refusal.
            with suppress(NotNow):
                await in_time(self._reader.read(ReadGroup(eviction.cluster, eviction.key)))
                unseen_seconds = IN_PROGRESS_SECONDS  # the read has shown those made before
            eviction = self._eviction(request)
            if eviction is None:
                return ALLOWED
        # Nothing is awaited below, so that no other eviction is decided in between.
        refusal = self._refusal(eviction, unseen_seconds)
        self.counts["refused" if refusal else "allowed"] += 1
        if refusal:
            return Answer((Cause(DISRUPTION, refusal, ""),))
        if not _is_dry_run(request):
            self._allowed.add(eviction)
        return ALLOWED

    def _eviction(self, request: AdmissionRequest[Any]) -> Eviction | None:
        """Return the eviction of a worker, or None if there is no budget for it."""
        named = self._members.named(request.namespace or "", request.name or "")
        if named is None or request.operation != "CREATE":
            return None
        uid, member = named
        cluster = self._clusters.owner(member.key)
        # The pods of these RayClusters are deleted or unmanaged, so a budget has no use.
        if cluster is None or cluster.ignored or cluster.deleting or cluster.suspended:
            return None
        limit, source = cluster.max_disrupted, names.ANNOTATION_MAX_DISRUPTED
        if limit is None:
            limit, source = self._default, "setting disruption.maxDisruptedReplicas"
        group = cluster.groups.get(member.key.group)
        if limit is None or group is None or member.identity is None:
            return None
        if not 0 < group.num_of_hosts <= MAX_HOSTS:
            return None
        return Eviction(
            cluster.name,
            group,
            key=member.key,
            limit=limit,
            source=source,
            uid=uid,
            replica=member.identity.replica,
        )

    def _refusal(self, eviction: Eviction, seconds: float) -> str:
        """Return why an eviction is refused, or an empty text. Evictions that were allowed within
        `seconds` may be in progress.
        """
        evicting = self._allowed.replicas(eviction.key, seconds)
        return eviction.refusal(self._members.group(eviction.key), evicting)


def _is_dry_run(request: AdmissionRequest[Any]) -> bool:
    """Return whether an eviction changes nothing. `kubectl drain --dry-run=server` writes it only
    into the options of the deletion.
    """
    eviction = request.object if isinstance(request.object, dict) else {}
    options = eviction.get("deleteOptions")
    return bool(request.dry_run or (isinstance(options, dict) and options.get("dryRun")))
