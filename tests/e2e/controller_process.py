"""The controller as installed by the manifests, with its own account and settings."""

import sys
from collections.abc import Mapping
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.e2e.api import Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import CONTROLLER, NAMESPACE, token_kubeconfig
from tests.e2e.process import Replica, free_port, get, records


class Controller(Replica):
    """Started, ended and started again by stories, on the port it had; `settings` are the variables
    of the ConfigMap and more.
    """

    def __init__(self, plane: ControlPlane, folder: Path, settings: Mapping[str, str]) -> None:
        self._plane = plane
        self._settings = settings
        self._kubeconfig = folder / "controller-kubeconfig"
        port = free_port()
        command = [
            *(sys.executable, "-m", "webhook.cli.main", "controller"),
            *("--host=127.0.0.1", f"--port={port}", f"--kubeconfig={self._kubeconfig}"),
            f"--installation.namespace={NAMESPACE}",
        ]
        super().__init__(plane.process(f"controller-{port}", command, settings), port)

    @property
    def leads(self) -> bool:
        return self.metric("ray_webhook_leader") == 1

    def lines(self) -> list[Json]:
        return records(self.log)

    def start(self) -> None:
        token_kubeconfig(self._plane, self._kubeconfig, CONTROLLER)
        super().start()

    def sample(self, name: str, labels: Mapping[str, str]) -> float:
        """The value of one of its metrics with labels; 0 where there is none with these."""
        return next((each.value for each in self._samples(name) if each.labels == labels), 0.0)

    def problems(self, namespace: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for each in self._samples("ray_webhook_problems"):
            if each.labels["raycluster_namespace"] == namespace:
                found.setdefault(each.labels["raycluster"], set()).add(each.labels["diagnosis"])
        return found

    def replica(self, settings: Mapping[str, str]) -> "Controller":
        """Another process of the same installation, with settings of its own, not started."""
        return Controller(self._plane, self._kubeconfig.parent, {**self._settings, **settings})

    def _samples(self, name: str) -> list[Sample]:
        families = text_string_to_metric_families(get(self._admin_port, "/metrics"))
        return [each for family in families for each in family.samples if each.name == name]
