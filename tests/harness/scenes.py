"""Scenes: a live cluster as the API server would return it, possibly with problems."""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
import yaml
from msgspec import Struct, structs

from tests.builders import NAMESPACE, ClusterBuilder, Webhook, a_cluster, manifest
from webhook.api import names
from webhook.api.objects import Bare
from webhook.diagnostics.examiner import examine
from webhook.diagnostics.report import ClusterReport
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.views import as_cluster
from webhook.mutation.ray_pod import DEFAULT_POLICY, Policy
from webhook.objects.live_objects import (
    LiveCluster,
    LiveEvent,
    LiveJob,
    LiveNode,
    LivePod,
    LivePodGroup,
    LiveService,
    LiveWorkload,
    WebhookConfiguration,
)
from webhook.objects.object_cache import ObjectCache

Object = dict[str, Any]
T = TypeVar("T")

NOW = 1_732_190_400.0
"""2024-11-21, noon."""

CREATED = "2024-11-21T11:00:00Z"
MUTATING = Path(__file__).parent / "mutating.yaml"
"""The MutatingWebhookConfiguration as the chart renders it; `tests/manifests` compares both."""


def instant(seconds: float) -> str:
    """Return an instant of the scene's day, `seconds` before now."""
    minutes, second = divmod(12 * 3600 - int(seconds), 60)
    return f"2024-11-21T{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}Z"


def llama(replicas: int = 2, **spec: object) -> ClusterBuilder:
    selector = {names.NODE_TPU_ACCELERATOR: "tpu-v5p-slice", names.NODE_TPU_TOPOLOGY: "2x2x4"}
    amounts = {names.RESOURCE_TPU: "4"}
    container: Object = {"name": "ray-worker", "image": "rayproject/ray:2.54.0"}
    container["resources"] = {"limits": amounts, "requests": amounts}
    template = {"spec": {"nodeSelector": selector, "containers": [container]}}
    group = a_cluster("llama").group("tpu", hosts=4, replicas=replicas, template=template)
    return group.spec(**spec)


def hosts_of(replica: int) -> list[str]:
    """Return the names of the pods of a replica of the RayCluster `llama`."""
    return [f"llama-tpu-worker-{replica}-{host}" for host in range(4)]


class Observed(Struct, frozen=True):
    """The objects that a reader of the API server sees; None for kinds it may not read."""

    clusters: list[LiveCluster]
    pods: list[LivePod]
    pod_groups: list[LivePodGroup] | None = None
    events: list[LiveEvent] | None = None
    services: list[Bare] | None = None
    nodes: list[LiveNode] | None = None
    namespaces: list[Bare] | None = None
    configurations: list[WebhookConfiguration] | None = None
    ray_jobs: list[LiveJob] | None = None
    ray_services: list[LiveService] | None = None
    workloads: list[LiveWorkload] | None = None

    def load(self, objects: ObjectCache) -> ObjectCache:
        """Add all objects to an object cache, with a uid for each, as the API server gives them."""
        for field in self.__struct_fields__:
            found = getattr(self, field)
            values = None if found is None else [_identified(each, field) for each in found]
            getattr(objects, field).load(values)
        return objects

    def examined(self, now: float) -> ClusterReport:
        return examine(self.load(ObjectCache()), now)


class Scene:
    """Everything of one RayCluster, an hour after its start: all is well. Then it changes."""

    def __init__(
        self,
        cluster: ClusterBuilder | None = None,
        *,
        indexed: bool = False,
        policy: Policy = DEFAULT_POLICY,
    ) -> None:
        document = (cluster or llama()).build()
        document["metadata"]["creationTimestamp"] = CREATED
        self.cluster = document
        self.pods: dict[str, Object] = {}
        self.nodes: list[Object] = []
        self.quotas: list[Object] = []
        self.events: list[Object] = []
        self.pod_groups: list[Object] = []
        self.ray_jobs: list[Object] = []
        self.ray_services: list[Object] = []
        self.workloads: list[Object] = []
        name = document["metadata"]["name"]
        self.services = [_named(f"{name}-headless"), _named(f"{name}-head-svc")]
        self.namespaces: list[Object] = [{"metadata": {"name": NAMESPACE}}]
        self.webhooks = [msgspec.json.decode(_mutating())]
        self._start(policy, indexed=indexed)

    def without(self, *pods: str) -> Self:
        for pod in pods:
            del self.pods[pod]
        return self

    @property
    def workers(self) -> list[str]:
        return [name for name in self.pods if name != "llama-head"]

    def changed(self, *pods: str, **overlay: object) -> Self:
        """Change pods. Maps are merged; `null` removes a field."""
        for pod in pods:
            self.pods[pod] = merged(self.pods[pod], overlay)
        return self

    def copied(self, pod: str, name: str) -> Self:
        meta = {"name": name, "uid": f"uid-of-{name}"}
        self.pods[name] = merged(self.pods[pod], {"metadata": meta})
        return self

    def event(self, reason: str, name: str, ago: float, uid: str = "", **fields: object) -> Self:
        """Add an event about a pod or RayCluster, of some seconds ago."""
        self.events.append({
            "metadata": {"name": f"event-{len(self.events)}", "namespace": NAMESPACE},
            "involvedObject": {"name": name, "uid": uid or f"uid-of-{name}"},
            "reason": reason, "firstTimestamp": instant(ago), "lastTimestamp": instant(ago),
            **fields})  # fmt: skip
        return self

    def with_env(self, pod: str, **variables: str | None) -> Self:
        """Give variables of all containers of a pod another value, or none."""
        spec = self.pods[pod]["spec"]
        given = [
            {"name": key, "value": text} for key, text in variables.items() if text is not None
        ]
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            others = [entry for entry in container["env"] if entry["name"] not in variables]
            container["env"] = given + others
        return self

    def renamed(self, namespace: str, name: str) -> Self:
        """Return this scene with another namespace and RayCluster, on other nodes."""
        text = json.dumps(vars(self)).replace('"team"', json.dumps(namespace))
        text = text.replace("llama", name).replace("uid-of-", f"uid-of-{namespace}-")
        other = copy.copy(self)
        vars(other).update(json.loads(text.replace('"node-', f'"{namespace}-{name}-node-')))
        return other

    @property
    def resources(self) -> dict[str, list[Object]]:
        """All objects by resource, the RayCluster after the objects that belong to it."""
        return {
            "pods": list(self.pods.values()), "podgroups": self.pod_groups, "events": self.events,
            "services": self.services, "nodes": self.nodes, "namespaces": self.namespaces,
            "resourcequotas": self.quotas, "mutatingwebhookconfigurations": self.webhooks,
            "rayjobs": self.ray_jobs, "rayservices": self.ray_services,
            "workloads": self.workloads, "rayclusters": [self.cluster],
        }  # fmt: skip

    def observed(self) -> Observed:
        objects = {
            **vars(self), "clusters": [self.cluster], "pods": list(self.pods.values()),
            "configurations": self.webhooks,
        }  # fmt: skip
        return msgspec.json.decode(msgspec.json.encode(objects), type=Observed)

    def examined(self, now: float = NOW) -> ClusterReport:
        return self.observed().examined(now)

    def ids(self, now: float = NOW) -> list[str]:
        return [problem.id for problem in self.examined(now).every_problem]

    def _start(self, policy: Policy, *, indexed: bool) -> None:
        webhook = Webhook(self.cluster, policy=policy)
        view = as_cluster(manifest(self.cluster))
        for document in expand(self.cluster, view, indexed=indexed):
            pod = webhook.admit(document).pod
            labels = pod["metadata"]["labels"]
            index, name, node = labels.get(names.LABEL_REPLICA_INDEX), "llama-head", "node-head"
            if index:
                place = f"{index}-{labels.get(names.LABEL_HOST_INDEX, '0')}"
                name = f"{view.metadata.name}-{labels[names.LABEL_GROUP]}-worker-{place}"
                node = f"node-{place}"
            pod["metadata"] |= {"name": name, "uid": f"uid-of-{name}", "creationTimestamp": CREATED}
            pod["spec"]["nodeName"] = node
            conditions = [{"type": "Ready", "status": "True"}]
            pod["status"] = {"phase": "Running", "conditions": conditions}
            self.pods[name] = pod
            pool = {names.NODE_POOL: f"pool-{index or 'cpu'}"}
            self.nodes.append({"metadata": {"name": node, "labels": pool}})


@cache
def _mutating() -> bytes:
    return msgspec.json.encode(yaml.load(MUTATING.read_text(), yaml.CSafeLoader))


def merged(under: Any, over: Any) -> Any:  # noqa: ANN401 - JSON has values of every type
    """Return JSON with other JSON over it: maps are merged, all else is replaced, null removes."""
    if not isinstance(under, dict) or not isinstance(over, dict):
        return copy.deepcopy(over)
    result = copy.deepcopy(under)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def llama_of(template: Object, *replicas: int) -> ClusterBuilder:
    """Return a RayCluster of four-host slices with more in their templates."""
    (group,) = llama().build()["spec"]["workerGroupSpecs"]
    cluster = a_cluster("llama")
    for index, count in enumerate(replicas):
        over = merged(group["template"], template)
        cluster.group(f"tpu-{index}", hosts=4, replicas=count, template=over)
    return cluster


def job(*replicas: int, slices: int = 2) -> Scene:
    (group,) = llama().build()["spec"]["workerGroupSpecs"]
    (container,) = group["template"]["spec"]["containers"]
    container["env"] = [{"name": names.MEGASCALE_NUM_SLICES, "value": str(slices)}]
    return Scene(llama_of({"spec": {"containers": [container]}}, *replicas))


def _named(name: str) -> Object:
    return {"metadata": {"name": name, "namespace": NAMESPACE}}


def _identified(value: T, kind: str) -> T:
    meta = value.metadata  # type: ignore[attr-defined]  # of every kind here
    uid = meta.uid or f"{kind}/{meta.namespace}/{meta.name}"
    return structs.replace(value, metadata=structs.replace(meta, uid=uid))  # type: ignore[type-var]
