"""An autoscaler's node provider as a process that uses the head's service account."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from tests.e2e.control_plane import ControlPlane
from tests.e2e.credentials import MASTERS
from tests.lab.facts.wheel import INTERPRETER

DRIVER: Final = Path(__file__).parent / "inside_ray.py"

Json = dict[str, Any]


class Provider:
    """Runs on entry, ends on exit. `version` is v1 or v2; each step gives what went wrong."""

    def __init__(self, plane: ControlPlane, version: str, cluster: str, namespace: str) -> None:
        user = json.loads(
            plane.kubeconfig(f"autoscaler-{cluster}-{namespace}", [MASTERS]).read_text()
        )["users"][0]["user"]
        server = urlsplit(plane.server)
        self._command = [str(INTERPRETER), str(DRIVER), version, cluster, namespace]
        self._log = plane.folder / f"autoscaler-{namespace}.log"
        self._environment = {
            **os.environ,
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT_HTTPS": str(server.port),
            "RAY_KUBERAY_CLIENT_CERT_PATH": user["client-certificate"],
            "RAY_KUBERAY_CLIENT_KEY_PATH": user["client-key"],
            "RAY_KUBERAY_CA_CERT_PATH": str(plane.credentials.ca),
        }

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                env=self._environment, text=True,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=20)

    def launch(self, group: str, count: int) -> list[str]:
        errors: list[str] = self._step({"do": "launch", "group": group, "count": count})["errors"]
        return errors

    def terminate(self, pods: Sequence[Json]) -> list[str]:
        errors: list[str] = self._step(
            {"do": "terminate", "pods": [pod["metadata"]["name"] for pod in pods]}
        )["errors"]
        return errors

    def workers(self) -> set[str]:
        return set(self._step({"do": "workers"})["workers"])

    def _step(self, asked: Json) -> Json:
        reader, writer = self._process.stdout, self._process.stdin
        assert reader is not None
        assert writer is not None
        writer.write(json.dumps(asked) + "\n")
        writer.flush()
        line = reader.readline()
        assert line, self._log.read_text()[-2000:]
        answer: Json = json.loads(line)
        return answer
