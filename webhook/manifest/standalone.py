"""Cluster state from manifests: the index of RayClusters, and the pods with an identity."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, filterfalse

import msgspec

from webhook.api import names
from webhook.api.names import POD_KIND, RAYCLUSTER_KIND
from webhook.api.objects import Pod, RayCluster
from webhook.api.review import Denied
from webhook.groups.annotations import read_index
from webhook.groups.group_config import ClusterIndex, read_cluster_config
from webhook.groups.identity import GroupKey, ShardKey
from webhook.groups.identity_index import Membership
from webhook.groups.identity_labels import identity_of, is_of_one_host
from webhook.manifest.reader import Manifest
from webhook.manifest.views import as_cluster, as_pod, problem_in
from webhook.manifest.yaml_values import ManifestError
from webhook.reservation.identities import StandaloneIdentities


@dataclass(frozen=True)
class Standalone:
    """The state in place of a watched cluster."""

    clusters: ClusterIndex
    members: Membership
    identities: StandaloneIdentities
    rayclusters: list[RayCluster]
    """The RayClusters, in the order of their manifests."""
    outdated: list[ManifestError]
    """The pods that are older than the `numOfHosts` of their groups, which have no identity."""


def load_state(
    manifests: Sequence[Manifest], without_identity: Sequence[Pod] = (), *, ignoring: bool = True
) -> Standalone:
    """Return the state from RayClusters and pods; other kinds, head pods and terminating pods are
    ignored.

    A RayCluster of a shard group without an index receives one. If `ignoring`, the `ignore` label
    exempts a RayCluster. Of `without_identity` pods, only their owners' uids are used.

    Raises ManifestError for an object of an invalid shape, and for a pod with invalid identity
    labels, unless it has those of a group of 1 host.
    """
    members = Membership()
    pods = [(manifest, as_pod(manifest)) for manifest in manifests if manifest.kind == POD_KIND]
    owned = [*(pod for _, pod in pods), *without_identity]
    rayclusters = [
        as_cluster(manifest, owned) for manifest in manifests if manifest.kind == RAYCLUSTER_KIND
    ]
    clusters, identities = ClusterIndex(ignoring=ignoring), StandaloneIdentities(members)
    state = Standalone(
        clusters, members, identities=identities, rayclusters=rayclusters, outdated=[]
    )
    for cluster in rayclusters:
        clusters.put(read_cluster_config(cluster))
    _shard(clusters)
    for number, (manifest, pod) in enumerate(pods):
        try:
            _identity(state, pod, f"state-{number}")
        except Denied as denied:
            problem = problem_in(manifest, str(denied), ("metadata", "labels"))
            if not is_of_one_host(pod.labels):
                raise problem from None
            state.outdated.append(problem)
    return state


def _shard(clusters: ClusterIndex) -> None:
    """Assign RayClusters of shard groups the indexes that they would receive at creation: the
    lowest free ones.
    """
    taken: dict[ShardKey, set[int | None]] = {}
    for cluster_config in clusters:
        key = ShardKey(cluster_config.namespace, cluster_config.shard_group)
        taken.setdefault(key, set()).add(read_index(cluster_config.shard_index))
    free = {key: filterfalse(indices.__contains__, count()) for key, indices in taken.items()}
    lacking = [
        cluster_config
        for cluster_config in clusters
        if cluster_config.shard_group and not cluster_config.shard_index
    ]
    for cluster_config in lacking:
        index = next(free[ShardKey(cluster_config.namespace, cluster_config.shard_group)])
        clusters.put(msgspec.structs.replace(cluster_config, shard_index=str(index)))


def _identity(state: Standalone, pod: Pod, stand_in: str) -> None:
    """Add a pod with its identity, under its uid, or `stand_in` if it was never stored."""
    if (
        pod.labels.get(names.LABEL_NODE_TYPE) != names.NODE_TYPE_WORKER
        or pod.metadata.deletion_timestamp
    ):
        return
    namespace = pod.metadata.namespace or "default"
    cluster = state.clusters.get(namespace, pod.labels.get(names.LABEL_CLUSTER, ""))
    group = cluster.groups.get(pod.labels.get(names.LABEL_GROUP, "")) if cluster else None
    if cluster is None or group is None:
        return
    identity = identity_of(group.group_name, pod.labels, lambda: pod.spec, group.num_of_hosts)
    if identity is not None:
        key = GroupKey(namespace, cluster.uid, group.group_name)
        state.identities.carried(key, identity, pod.metadata.uid or stand_in)
