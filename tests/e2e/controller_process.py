"""The controller process as installed by the manifests, with its own account and settings, next to
the webhook.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.e2e.api import Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import CONTROLLER, NAMESPACE, token_kubeconfig
from tests.e2e.process import NO_ANSWER, Program, Startable, free_port, records

ANSWER_SECONDS = 30
HOST = "127.0.0.1"


class Controller(Startable):
    """Started, ended and started again by stories, on the port it had; `settings` are the variables
    of the ConfigMap and more.
    """

    def __init__(self, plane: ControlPlane, folder: Path, settings: Mapping[str, str]) -> None:
        self._plane = plane
        self._settings = settings
        self._kubeconfig = folder / "controller-kubeconfig"
        self._port = free_port()
        self._opener = build_opener(ProxyHandler({}))
        self._program = self._process(self._port, settings)

    @property
    def log(self) -> Path:
        """What it wrote, from all its starts."""
        return self._program.log

    @property
    def address(self) -> str:
        """Where its probes and metrics are."""
        return f"{HOST}:{self._port}"

    @property
    def ready(self) -> bool:
        """Whether its probe says that it is in step with the cluster."""
        return self._is_ready(self._port)

    @property
    def leads(self) -> bool:
        """Whether it writes."""
        return self.metric("ray_webhook_leader") == 1

    def lines(self) -> list[Json]:
        """What its log says, a line each."""
        return records(self.log)

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        token_kubeconfig(self._plane, self._kubeconfig, CONTROLLER)
        self._program.start()
        self._program.wait_until(lambda: self.ready)

    def stop(self) -> None:
        """End it with SIGTERM, as kubelet does."""
        self._program.stop()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._program.kill()

    def metric(self, name: str) -> float:
        """The value of one of its metrics without labels."""
        return _value(self._admin("/metrics", self._port), name)

    def sample(self, name: str, labels: Mapping[str, str]) -> float:
        """The value of one of its metrics with labels; 0 where there is none with these."""
        return next((each.value for each in self._samples(name) if each.labels == labels), 0.0)

    def problems(self, namespace: str) -> dict[str, set[str]]:
        """Return the ids of the problems that its metrics count in a namespace, by RayCluster."""
        found: dict[str, set[str]] = {}
        for each in self._samples("ray_webhook_problems"):
            if each.labels["raycluster_namespace"] == namespace:
                found.setdefault(each.labels["raycluster"], set()).add(each.labels["diagnosis"])
        return found

    def replica(self, settings: Mapping[str, str]) -> "Controller":
        """Another process of the same installation, with settings of its own, not started."""
        return Controller(self._plane, self._kubeconfig.parent, {**self._settings, **settings})

    def _samples(self, name: str) -> list[Sample]:
        families = text_string_to_metric_families(self._admin("/metrics", self._port))
        return [each for family in families for each in family.samples if each.name == name]

    def _admin(self, path: str, port: int) -> str:
        with self._opener.open(f"http://{HOST}:{port}{path}", timeout=ANSWER_SECONDS) as answer:
            text: str = answer.read().decode()
            return text

    def _is_ready(self, port: int) -> bool:
        try:
            return bool(self._admin("/readyz", port))
        except NO_ANSWER:
            return False

    def _process(self, port: int, settings: Mapping[str, str]) -> Program:
        flags = [
            f"--host={HOST}",
            f"--port={port}",
            f"--kubeconfig={self._kubeconfig}",
            f"--installation.namespace={NAMESPACE}",
        ]
        command = [sys.executable, "-m", "webhook.cli.main", "controller", *flags]
        return self._plane.process(f"controller-{port}", command, settings)


def _value(exposition: str, name: str) -> float:
    return next(
        float(line.split()[1]) for line in exposition.splitlines() if line.startswith(f"{name} ")
    )
