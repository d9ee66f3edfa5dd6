"""An autoscaler's node provider as a process that uses the head's service account."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.e2e.control_plane import ControlPlane
from tests.e2e.credentials import MASTERS
from tests.lab.facts.wheel import INTERPRETER
from tests.lab.program import Json, Program

DRIVER: Final = Path(__file__).parent / "inside_ray.py"


class Provider(Program):
    """Runs on entry, ends on exit. `version` is v1 or v2; each step gives what went wrong."""

    def __init__(self, plane: ControlPlane, version: str, cluster: str, namespace: str) -> None:
        user = json.loads(
            plane.kubeconfig(f"autoscaler-{cluster}-{namespace}", [MASTERS]).read_text()
        )["users"][0]["user"]
        server = urlsplit(plane.server)
        environment = {
            **os.environ,
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT_HTTPS": str(server.port),
            "RAY_KUBERAY_CLIENT_CERT_PATH": user["client-certificate"],
            "RAY_KUBERAY_CLIENT_KEY_PATH": user["client-key"],
            "RAY_KUBERAY_CA_CERT_PATH": str(plane.credentials.ca),
        }
        super().__init__(INTERPRETER, DRIVER, version, cluster, namespace, env=environment)

    def launch(self, group: str, count: int) -> list[str]:
        return self.answer({"do": "launch", "group": group, "count": count}, list[str])

    def terminate(self, pods: Sequence[Json]) -> list[str]:
        names = [pod["metadata"]["name"] for pod in pods]
        return self.answer({"do": "terminate", "pods": names}, list[str])

    def workers(self) -> set[str]:
        return self.answer({"do": "workers"}, set[str])
