"""The objects of repair in the API server: RayClusters and worker pods."""

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct, field

from webhook.api import names
from webhook.api.formats import mark, pointer, read_mark
from webhook.api.objects import Container
from webhook.api.review import Denied
from webhook.cache.cluster_cache import PODS, RAYCLUSTERS
from webhook.controller.repair.plan import DELETE, MARK, Action, RepairGroup, RepairHost
from webhook.controller.repair.repair_records import RepairRecords
from webhook.controller.requests import list_all
from webhook.diagnostics.assigned_pods import is_head
from webhook.groups.group_config import RayClusterConfig, read_cluster_config
from webhook.groups.identity import HostIdentity
from webhook.groups.identity_labels import identity_of
from webhook.kubeclient.client import Api
from webhook.objects.live_objects import ContainerStatus, LivePod

POLICY: Final = "ray-webhook-identity-labels"
"""The policy and binding in `manifests/policies/tenants`: who may write identity labels."""
_POLICY_KINDS: Final = {
    "validatingadmissionpolicies": "ValidatingAdmissionPolicy",
    "validatingadmissionpolicybindings": "ValidatingAdmissionPolicyBinding",
}


class _PolicySpec(Struct, rename="camel", frozen=True):
    validation_actions: list[str] | None = None


class _AdmissionPolicy(Struct, frozen=True):
    """A ValidatingAdmissionPolicy or its binding; only bindings have `validationActions`."""

    spec: _PolicySpec = field(default_factory=_PolicySpec)


class RepairStore:
    """Reads worker groups and changes pods. All methods raise ApiError; a change of an outdated
    version is a conflict. If `ignoring`, the `ignore` label exempts a RayCluster.
    """

    def __init__(self, api: Api, records: RepairRecords, *, ignoring: bool = True) -> None:
        self.records = records
        self._api = api
        self._ignoring = ignoring

    async def unprotected(self) -> str:
        """Return why the tenant policy is not in force, or an empty string."""
        for plural, kind in _POLICY_KINDS.items():
            path = f"/apis/admissionregistration.k8s.io/v1/{plural}/{POLICY}"
            policy = await self._api.find(path, _AdmissionPolicy)
            if policy is None:
                return f"there is no {kind} {POLICY}"
            actions = policy.spec.validation_actions
            if actions is not None and "Deny" not in actions:
                return f"{kind} {POLICY} has validationActions {actions}, without Deny"
        return ""

    async def groups(self, known: RayClusterConfig) -> dict[str, RepairGroup]:
        """Return the current worker groups of a RayCluster whose replicas have several hosts, by
        name; none if the RayCluster was deleted, recreated, or is unmanaged.
        """
        path = f"/apis/{names.RAY_GROUP}/v1/namespaces/{quote(known.namespace)}/rayclusters"
        # A list needs no other right than the watch of RayClusters has.
        selection = [("fieldSelector", f"metadata.name={known.name}")]
        clusters = await list_all(self._api, path, selection, RAYCLUSTERS.codec)
        cluster = next(
            (live_cluster for live_cluster in clusters if live_cluster.metadata.uid == known.uid),
            None,
        )
        if cluster is None:
            return {}
        cluster_config = read_cluster_config(cluster, ignoring=self._ignoring)
        if cluster_config.deleting or cluster_config.unmanaged:
            return {}
        pods = await self._pods(known)
        workers: dict[str, list[LivePod]] = {}
        for pod in pods:
            if pod.labels.get(names.LABEL_NODE_TYPE) == names.NODE_TYPE_WORKER:
                workers.setdefault(pod.labels.get(names.LABEL_GROUP, ""), []).append(pod)
        head = any(is_head(pod) and not pod.is_terminating and not pod.ended for pod in pods)
        version = f"{cluster.metadata.generation}"
        groups: dict[str, RepairGroup] = {}
        for group in cluster.spec.worker_group_specs or ():
            name, hosts = group.group_name, group.num_of_hosts
            pods_of_group = workers.get(name, ())
            if hosts > 1:
                groups[name] = RepairGroup(
                    version,
                    hosts,
                    group.desired,
                    tuple(_hosts_of(pods_of_group, name, hosts)),
                    head=head,
                    repair=cluster_config.repair,
                    restart=cluster_config.restart
                    # The restarts of a pod that is too large are unknown.
                    and not any(pod.unread_bytes for pod in pods_of_group),
                    suspended=cluster_config.suspended or bool(group.suspend),
                    workers_to_delete=group.workers_to_delete,
                )
        return groups

    async def perform(self, cluster_config: RayClusterConfig, action: Action) -> None:
        """Perform an action on a pod, at the observed version."""
        host = action.host
        path = f"/api/v1/namespaces/{quote(cluster_config.namespace)}/pods/{quote(host.name)}"
        if action.kind == DELETE:
            await self._api.delete(path, host.uid, host.version)
            return
        label = pointer("metadata", "labels", names.LABEL_MARKED_FOR_DELETION)
        change = {"op": "remove", "path": label}
        if action.kind == MARK:
            change |= {"op": "add", "value": mark(action.reason, host.uid)}
        await self._api.patch(path, [change], host.version)

    async def _pods(self, cluster_config: RayClusterConfig) -> list[LivePod]:
        types = f"{names.NODE_TYPE_HEAD},{names.NODE_TYPE_WORKER}"
        selector = (
            f"{names.LABEL_CLUSTER}={cluster_config.name},{names.LABEL_NODE_TYPE} in ({types})"
        )
        path = f"/api/v1/namespaces/{quote(cluster_config.namespace)}/pods"
        return [
            pod
            for pod in await list_all(self._api, path, [("labelSelector", selector)], PODS.codec)
            if pod.controller is not None and pod.controller.uid == cluster_config.uid
        ]


def _hosts_of(pods: Sequence[LivePod], group: str, hosts: int) -> Iterator[RepairHost]:
    """Yield those with an identity of the workers of a group."""
    for pod in pods:
        try:
            identity = identity_of(group, pod.labels, None, hosts)
        except Denied:
            continue
        if identity is not None:
            yield _host_of(pod, identity)


def _host_of(pod: LivePod, identity: HostIdentity) -> RepairHost:
    meta = pod.metadata
    ray = (pod.spec.ray or Container()).name
    statuses = {
        container_status.name: container_status
        for container_status in pod.status.container_statuses or ()
    }
    status = statuses.get(ray, ContainerStatus())
    return RepairHost(
        name=pod.name,
        uid=meta.uid or "",
        version=meta.resource_version,
        identity=identity,
        ours=pod.annotations.get(names.ANNOTATION_IDENTITY) == names.IDENTITY_ASSIGNED,
        deleting=pod.is_terminating,
        ended=pod.ended,
        runs=pod.status.phase == "Running"
        and (status.state.running is not None or bool(pod.unread_bytes)),
        restarts=status.restart_count,
        marked=bool(read_mark(pod.labels.get(names.LABEL_MARKED_FOR_DELETION, ""), meta.uid or "")),
    )
