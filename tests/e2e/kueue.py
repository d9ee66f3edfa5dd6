"""Kueue's manager as a process for a test control plane, installed by its own manifests: only the
address of its webhooks is changed.
"""

from base64 import b64encode
from collections.abc import Iterator
from typing import Final, Self

import yaml

from tests.e2e import build
from tests.e2e.api import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Json, Resource
from tests.e2e.control_plane import ControlPlane
from tests.e2e.credentials import MASTERS, rotated
from tests.e2e.process import Peer, free_port, says_ready

NAMESPACE: Final = "kueue-system"
USER: Final = f"system:serviceaccount:{NAMESPACE}:kueue-controller-manager"
"""The name under which the manager asks, as in an installation; it may do everything here."""

VERSION: Final = "kueue.x-k8s.io/v1beta2"
KUEUE_WORKLOADS: Final = Resource(VERSION, "workloads")
CLUSTER_QUEUES: Final = Resource(VERSION, "clusterqueues", namespaced=False)

_GROUPS: Final = {"kueue.x-k8s.io", "ray.io"}
"""The API groups whose webhooks are registered: no other jobs are queued here."""

_DEFINITION: Final = "CustomResourceDefinition"
_REGISTRATIONS: Final = {
    "MutatingWebhookConfiguration": MUTATING_WEBHOOKS,
    "ValidatingWebhookConfiguration": VALIDATING_WEBHOOKS,
}


class Kueue(Peer):
    """Installed and running on entry, ended on exit; it writes its authority into registrations."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane, self._api = plane, plane.api
        self._port, self._health_port = free_port(), free_port()
        self._folder = plane.folder / "kueue"
        self._folder.mkdir()
        text = build.manifests(build.KUEUE).read_text()
        self._objects = [found for found in yaml.load_all(text, yaml.CSafeLoader) if found]
        config = self._folder / "config.yaml"
        config.write_text(yaml.safe_dump(self._configuration()))
        kubeconfig = plane.kubeconfig(USER, [MASTERS, "system:serviceaccounts"])
        plane.namespace(NAMESPACE)
        program = plane.program(
            build.KUEUE,
            [
                f"--config={config}",
                f"--kubeconfig={kubeconfig}",
                "--feature-gates=VisibilityOnDemand=false",  # an API server on a port of its own
                "--zap-log-level=2",
            ],
        )
        super().__init__(program, lambda: says_ready(self._health_port))

    def __enter__(self) -> Self:
        for name, content in (secret := rotated("kueue-ca", self._service)).items():
            (self._folder / name).write_bytes(content)  # as kubelet mounts it
        data = {name: b64encode(content).decode() for name, content in secret.items()}
        metadata = {"name": "kueue-webhook-server-cert"}
        self._api.create(SECRETS, {"metadata": metadata, "data": data}, NAMESPACE)
        self._plane.define(self._reached(_DEFINITION))
        for kind, resource in _REGISTRATIONS.items():
            for found in self._reached(kind):
                self._api.create(resource, found)
        return super().__enter__()

    @property
    def _service(self) -> str:
        """The name of the Service of its webhooks, which nothing here routes."""
        return f"kueue-webhook-service.{NAMESPACE}.svc"

    def _configuration(self) -> Json:
        """What its ConfigMap says, with Ray's kinds alone, on loopback."""
        (shipped,) = (found for found in self._objects if found["kind"] == "ConfigMap")
        config: Json = yaml.safe_load(shipped["data"]["controller_manager_config.yaml"])
        kinds = config["integrations"]["frameworks"]
        return config | {
            "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self._port, "certDir": str(self._folder)},
            "leaderElection": {"leaderElect": False},
            "integrations": {"frameworks": [kind for kind in kinds if kind.startswith("ray.io/")]},
        }

    def _reached(self, kind: str) -> Iterator[Json]:
        """Yield the objects of a kind with the address of the manager here."""
        for found in self._objects:
            if found["kind"] != kind:
                continue
            if kind == _DEFINITION:
                conversion = found["spec"].get("conversion", {}).get("webhook")
                callers = [conversion] if conversion else []
            else:
                callers = found["webhooks"] = [
                    each
                    for each in found["webhooks"]
                    if {group for rule in each["rules"] for group in rule["apiGroups"]} <= _GROUPS
                ]
            for caller in callers:
                path = caller["clientConfig"]["service"]["path"]
                caller["clientConfig"] = {"url": f"https://127.0.0.1:{self._port}{path}"}
            yield found
