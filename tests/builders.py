"""Builders of test objects, and the decision of the webhook on them without a network."""

import copy
import itertools
import json
from typing import Any, NamedTuple, Self

import jsonpatch

from tests.harness.apiserver import pod_review
from webhook.admission.codec import decode_pod
from webhook.admission.pod_handler import PodHandler
from webhook.api import names
from webhook.api.review import Answer, Denied
from webhook.groups.group_config import RayClusterConfig, read_cluster_config
from webhook.groups.required_reads import Read
from webhook.kubeclient.wire import Codec
from webhook.manifest.reader import Manifest
from webhook.manifest.standalone import load_state
from webhook.manifest.views import as_cluster
from webhook.mutation.ray_pod import DEFAULT_POLICY, Policy
from webhook.reservation.stores import at_once

Object = dict[str, Any]

NAMESPACE = "team"
_NOWHERE = "built-by-a-test"


def uid_of(cluster: str) -> str:
    return f"uid-of-{cluster}"


class Built:
    """An object under construction; every method returns the builder."""

    api_version = "ray.io/v1"
    kind = ""

    def __init__(self, **meta: object) -> None:
        self.value: Object = {
            "apiVersion": self.api_version, "kind": self.kind, "metadata": meta, "spec": {},
        }  # fmt: skip

    def label(self, key: str, value: object) -> Self:
        self.value["metadata"].setdefault("labels", {})[key] = value
        return self

    def annotated(self, key: str, value: object) -> Self:
        self.value["metadata"].setdefault("annotations", {})[key] = value
        return self

    def meta(self, **fields: object) -> Self:
        self.value["metadata"].update(fields)
        return self

    def spec(self, **fields: object) -> Self:
        self.value["spec"].update(fields)
        return self

    def build(self) -> Object:
        """Return a copy, so that one builder can give several versions."""
        return copy.deepcopy(self.value)


class PodBuilder(Built):
    """A worker pod as KubeRay sends it. `env`, `tpu` and the like are of the last container."""

    api_version = "v1"
    kind = "Pod"

    def __init__(self) -> None:
        super().__init__(namespace=NAMESPACE)
        self.label("app.kubernetes.io/name", "kuberay").label("ray.io/is-ray-node", "yes")
        self.label(names.LABEL_NODE_TYPE, names.NODE_TYPE_WORKER).of("cluster")
        self.container("ray-worker", image="rayproject/ray:2.54.0", env=[])

    def worker(self, group: str) -> Self:
        return self.label(names.LABEL_GROUP, group)

    def of(self, cluster: str) -> Self:
        owner = {
            "apiVersion": "ray.io/v1", "kind": "RayCluster", "name": cluster,
            "uid": uid_of(cluster), "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        self.meta(generateName=f"{cluster}-worker-", ownerReferences=[owner])
        return self.label(names.LABEL_CLUSTER, cluster)

    def head(self) -> Self:
        return self.worker(names.HEAD_GROUP).label(names.LABEL_NODE_TYPE, names.NODE_TYPE_HEAD)

    def orphan(self) -> Self:
        del self.value["metadata"]["ownerReferences"]
        return self

    def gated(self, *gates: str) -> Self:
        return self.spec(schedulingGates=[{"name": gate} for gate in gates])

    def identity(self, replica: int, host: int, name: str) -> Self:
        """Add the identity labels of a multi-host group, as KubeRay 1.6+ writes them."""
        return (
            self.label(names.LABEL_REPLICA_INDEX, str(replica))
            .label(names.LABEL_REPLICA_NAME, name)
            .label(names.LABEL_HOST_INDEX, str(host))
        )

    def container(self, name: str, **fields: object) -> Self:
        """Add a container, and speak of it from now on."""
        return self._add("containers", name, fields)

    def init(self, name: str, **fields: object) -> Self:
        """Add an init container, and speak of it from now on."""
        return self._add("initContainers", name, fields)

    def behind(self, name: str) -> Self:
        """Put a sidecar first, as service meshes do; the former first has KubeRay's command."""
        containers = self.value["spec"]["containers"]
        command = {"name": names.RAY_START_COMMAND, "value": "ray start --block"}
        containers[0].setdefault("env", []).append(command)
        containers.insert(0, {"name": name, "image": "busybox:1.37"})
        return self

    def env(self, name: str, value: str | None) -> Self:
        return self._add_variable(
            {"name": name} if value is None else {"name": name, "value": value}
        )

    def env_from(self, name: str, path: str) -> Self:
        return self._add_variable({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})

    def resource(self, key: str, amount: str | float, kind: str = "limits") -> Self:
        self._current.setdefault("resources", {}).setdefault(kind, {})[key] = amount
        return self

    def tpu(self, chips: str | int) -> Self:
        return self.resource(names.RESOURCE_TPU, chips).resource(
            names.RESOURCE_TPU, chips, "requests"
        )

    def gpu(self, number: str | int, key: str = "nvidia.com/gpu") -> Self:
        return self.resource(key, number)

    def topology(self, topology: str, accelerator: str = "tpu-v4-podslice") -> Self:
        return self.selecting(names.NODE_TPU_TOPOLOGY, topology).selecting(
            names.NODE_TPU_ACCELERATOR, accelerator
        )

    def selecting(self, key: str, value: str) -> Self:
        self.value["spec"].setdefault("nodeSelector", {})[key] = value
        return self

    def _add_variable(self, entry: Object) -> Self:
        self._current.setdefault("env", []).append(entry)
        return self

    def _add(self, kind: str, name: str, fields: dict[str, object]) -> Self:
        self._current: Object = {"name": name, "image": "busybox:1.37", **fields}
        self.value["spec"].setdefault(kind, []).append(self._current)
        return self


class ClusterBuilder(Built):
    """A RayCluster with its worker groups."""

    kind = "RayCluster"

    def __init__(self, name: str) -> None:
        super().__init__(name=name, namespace=NAMESPACE, uid=uid_of(name))
        head = {"rayStartParams": {}, "template": _template("ray-head")}
        self.spec(headGroupSpec=head, workerGroupSpecs=[])

    def head(self, **fields: object) -> Self:
        self.value["spec"]["headGroupSpec"]["template"]["spec"] |= fields
        return self

    def group(
        self, name: str, *, hosts: int = 1, replicas: int | None = 1, **fields: object
    ) -> Self:
        group = {"groupName": name, "numOfHosts": hosts, "replicas": replicas}
        group["template"] = _template("ray-worker")
        self.value["spec"]["workerGroupSpecs"].append({**group, **fields})
        return self

    def opting(self, **values: str) -> Self:
        """Add annotations of this product by their names without the prefix."""
        for name, value in values.items():
            self.annotated(names.PREFIX + name.replace("_", "-"), value)
        return self


def _template(container: str) -> Object:
    return {"spec": {"containers": [{"name": container, "image": "rayproject/ray:2.54.0"}]}}


def a_pod() -> PodBuilder:
    return PodBuilder()


def a_cluster(name: str) -> ClusterBuilder:
    return ClusterBuilder(name)


def cluster_config(cluster: ClusterBuilder) -> RayClusterConfig:
    return read_cluster_config(as_cluster(manifest(cluster.build())))


def manifest(document: Object) -> Manifest:
    return Manifest(_NOWHERE, document)


class Decided(NamedTuple):
    """What became of one pod: the pod after the patch, the answer, and the patch."""

    pod: Object
    answer: Answer
    patch: list[Object]

    @property
    def fields(self) -> list[str]:
        return [cause.field for cause in self.answer.causes]


class Undecided(Exception):  # noqa: N818 - named for what it is
    """Something has to be read before a pod can be decided."""

    def __init__(self, read: Read) -> None:
        super().__init__(read.reason)
        self.read = read


class Webhook:
    """The webhook in standalone mode, without a wire: bytes are reviewed, patches are JSON."""

    def __init__(self, *state: Object, policy: Policy = DEFAULT_POLICY) -> None:
        known = load_state([manifest(document) for document in state])
        self.clusters = known.clusters
        self.handler = PodHandler(known.clusters, known.identities, policy)
        self._numbers = itertools.count()

    def review(self, review: Object) -> Answer | Read:
        """Return what the handler says to a review. Raises Denied."""
        return at_once(self.handler(decode_pod(json.dumps(review).encode())))

    def admit(self, pod: Object, *, dry_run: bool = False) -> Decided:
        review = pod_review(pod, dry_run=dry_run, uid=f"request-{next(self._numbers)}")
        try:
            answer: Answer | Read = self.review(review)
        except Denied as denied:
            answer = Answer(denied.causes)
        if not isinstance(answer, Answer):
            raise Undecided(answer)
        patch: list[Object] = json.loads(answer.patch or b"[]")
        return Decided(jsonpatch.apply_patch(copy.deepcopy(pod), patch), answer, patch)


def items_of(codec: Codec[Any], page: Object) -> list[Any]:
    return [item for _, items in codec.portions(json.dumps(page).encode()) for item in items]


def decide(
    pod: Object | PodBuilder, cluster: Object | ClusterBuilder, policy: Policy = DEFAULT_POLICY
) -> Decided:
    known = cluster.build() if isinstance(cluster, ClusterBuilder) else cluster
    return Webhook(known, policy=policy).admit(pod.build() if isinstance(pod, PodBuilder) else pod)


def env_of(pod: Object, container: str = "ray-worker") -> dict[str, str]:
    """Return the variables of a container as its processes find them: of several entries the last;
    a field as `<path>`.
    """
    return {
        entry["name"]: f"<{entry['valueFrom']['fieldRef']['fieldPath']}>"
        if "valueFrom" in entry
        else entry.get("value", "")
        for entry in container_of(pod, container).get("env") or []
    }


def env_names(pod: Object, container: str = "ray-worker") -> list[str]:
    return [entry["name"] for entry in container_of(pod, container).get("env") or []]


def container_of(pod: Object, name: str) -> Object:
    containers = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]
    found: Object = next(each for each in containers if each["name"] == name)
    return found
