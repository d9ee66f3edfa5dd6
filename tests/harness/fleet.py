"""RayClusters with a thousand replicas, copied from one replica."""

import json
from itertools import chain

from tests.harness.scenes import Object, Scene, llama

HOSTS = 4


class Fleet:
    """RayClusters `fleet-0` and so on, of so many replicas each, in which all is well."""

    def __init__(self, clusters: int, replicas: int) -> None:
        scene = Scene(llama(replicas=1))
        worker = json.dumps(
            [pod for name, pod in scene.pods.items() if "-worker-" in name], sort_keys=True
        )
        self.clusters: list[Object] = []
        self.heads: list[Object] = []
        self.services: list[Object] = []
        self.nodes = [_node(scene.pods["llama-head"], "pool-of-heads")]
        self.namespaces: list[Object] = [{"metadata": {"name": "team", "uid": "team"}}]
        self.replicas: list[list[Object]] = []
        (group,) = scene.cluster["spec"]["workerGroupSpecs"]
        spec = {**scene.cluster["spec"], "workerGroupSpecs": [{**group, "replicas": replicas}]}
        for number in range(clusters):
            name = f"fleet-{number}"
            self.clusters += _called([{**scene.cluster, "spec": spec}], name)
            self.heads += _called([scene.pods["llama-head"]], name)
            for service in _called(scene.services, name):
                meta = {**service["metadata"], "uid": f"uid-of-{service['metadata']['name']}"}
                self.services.append({**service, "metadata": meta})
            for index in range(replicas):
                pods = json.loads(_placed(worker.replace("llama", name), number, index))
                self.replicas.append(pods)
                self.nodes += (_node(pod, f"pool-{number}-{index}") for pod in pods)

    @property
    def resources(self) -> dict[str, list[Object]]:
        return {
            "rayclusters": self.clusters, "services": self.services, "nodes": self.nodes,
            "pods": [*self.heads, *chain.from_iterable(self.replicas)],
            "namespaces": self.namespaces,
        }  # fmt: skip


def _called(documents: list[Object], name: str) -> list[Object]:
    found: list[Object] = json.loads(json.dumps(documents).replace("llama", name))
    return found


def _placed(text: str, cluster: int, index: int) -> str:
    text = text.replace('"tpu-0"', f'"tpu-{index}"').replace("tpu-0-", f"tpu-{index}-")
    text = text.replace("-worker-0-", f"-worker-{index}-")
    text = text.replace('"node-0-', f'"node-{cluster}-{index}-')
    label = '"ray.io/worker-group-replica-index": '
    return text.replace(f'{label}"0"', f'{label}"{index}"')


def _node(pod: Object, pool: str) -> Object:
    labels = {"cloud.google.com/gke-nodepool": pool}
    name = pod["spec"]["nodeName"]
    return {"metadata": {"name": name, "uid": f"uid-of-{name}", "labels": labels}}
