"""Deletion of a worker pod as by kubelet, simulated with processes."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_POLL = 0.1
_NAME = "RAY_CLOUD_INSTANCE_ID"


class Pod:
    """The first container of a pod, whose command is given; KubeRay names it to Ray."""

    def __init__(self, pod: Json, name: str, command: list[str], others: Mapping[str, str]) -> None:
        container = pod["spec"]["containers"][0]
        own = {entry["name"]: entry["value"] for entry in container.get("env") or []}
        self._environment = {**others, **own, _NAME: name}
        self._grace = float(pod["spec"]["terminationGracePeriodSeconds"])
        hook = (container.get("lifecycle") or {}).get("preStop") or {}
        self._hook: list[str] = hook.get("exec", {}).get("command", [])
        self._name = name
        self._process = subprocess.Popen(
            command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def delete(self) -> None:
        """End it as a kubelet does: hook, SIGTERM, SIGKILL when the grace period is over.

        https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
        """
        begun = time.monotonic()
        if self._hook:
            self._wait(subprocess.Popen(self._hook, env=self._environment), begun)
        self._process.send_signal(signal.SIGTERM)
        self._wait(self._process, begun)
        kill(f"{_NAME}={self._name}")
        self._process.wait()

    def _wait(self, process: subprocess.Popen[bytes], begun: float) -> None:
        """Wait for a process until it ends or the grace period is over."""
        while process.poll() is None and time.monotonic() - begun < self._grace:
            time.sleep(_POLL)


def kill(variable: str) -> None:
    """Kill every process that was started with a variable, such as `NAME=value`."""
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            environment = (directory / "environ").read_bytes().split(b"\0")
            if variable.encode() in environment and int(directory.name) != os.getpid():
                os.kill(int(directory.name), signal.SIGKILL)
        except OSError:
            continue  # it has ended, or is somebody else's
