"""Program for an environment with Ray: scales a RayCluster by the node provider of an autoscaler,
with a line of JSON for each step.

The decision to scale is not made here: each input line gives the decision of an autoscaler.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from ray.autoscaler._private.kuberay.node_provider import KubeRayNodeProvider
from ray.autoscaler._private.util import NodeID
from ray.autoscaler.tags import NODE_KIND_WORKER, TAG_RAY_NODE_KIND, TAG_RAY_USER_NODE_TYPE
from ray.autoscaler.v2.instance_manager.cloud_providers.kuberay.cloud_provider import (
    KubeRayProvider,
    NodeKind,
)

Json = dict[str, Any]

CONFIG = {
    "worker_liveness_check": False,
    "disable_node_updaters": True,
    "disable_launch_config_check": True,
    "foreground_node_launch": True,
}


class First:
    """The provider of the first autoscaler, which posts what it collected at an update's end."""

    def __init__(self, cluster: str, namespace: str) -> None:
        self._provider = KubeRayNodeProvider({**CONFIG, "namespace": namespace}, cluster)

    def workers(self) -> list[str]:
        found: list[NodeID] = self._provider.non_terminated_nodes(
            {TAG_RAY_NODE_KIND: NODE_KIND_WORKER}
        )
        return found

    def launch(self, group: str, count: int) -> list[str]:
        tags = {TAG_RAY_USER_NODE_TYPE: group}
        return self._update(lambda: self._provider.create_node({}, tags, count))

    def terminate(self, pods: list[str]) -> list[str]:
        return self._update(lambda: [self._provider.terminate_node(pod) for pod in pods])

    def _update(self, change: Callable[[], object]) -> list[str]:
        self._provider.non_terminated_nodes({})
        if not self._provider.safe_to_scale():
            return ["the provider waits for pods that it deleted"]
        change()
        self._provider.post_process()
        return []


class Second:
    """The provider of the second autoscaler."""

    def __init__(self, cluster: str, namespace: str) -> None:
        self._provider = KubeRayProvider(cluster, {"namespace": namespace}, gcs_client=None)
        self._requests = 0

    def workers(self) -> list[str]:
        found = self._provider.get_non_terminated().values()
        return [each.cloud_instance_id for each in found if each.node_kind == NodeKind.WORKER]

    def launch(self, group: str, count: int) -> list[str]:
        self._provider.launch({group: count}, self._request())
        return self._errors()

    def terminate(self, pods: list[str]) -> list[str]:
        self._provider.terminate(pods, self._request())
        return self._errors()

    def _request(self) -> str:
        self._requests += 1
        return str(self._requests)

    def _errors(self) -> list[str]:
        return [str(error.details) for error in self._provider.poll_errors()]


def answer(provider: First | Second, asked: Json) -> list[str]:
    """Return what went wrong, as Ray logs it and tries again, or the names of the workers."""
    try:
        if asked["do"] == "launch":
            return provider.launch(asked["group"], asked["count"])
        if asked["do"] == "terminate":
            return provider.terminate(asked["pods"])
        return provider.workers()
    except Exception as error:  # noqa: BLE001 - whatever it is, the autoscaler continues
        return [f"{type(error).__name__}: {error}"]


_, version, cluster, namespace = sys.argv
provider = (First if version == "v1" else Second)(cluster, namespace)
for line in sys.stdin:
    print(json.dumps(answer(provider, json.loads(line))), flush=True)
