"""Delete workers of real Rays during a task, and write docs/contributing/measurements.md."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests import ROOT
from tests.builders import a_cluster, a_pod, decide
from tests.e2e.process import accepts_connections, free_port
from tests.e2e.waiting import until
from tests.lab.program import Json

PAGE: Final = ROOT / "docs" / "contributing" / "measurements.md"
BEGIN: Final = "<!-- Written by `make drain`. -->\n"
END: Final = "<!-- End of what `make drain` writes. -->\n"
DRIVER: Final = Path(__file__).parent / "inside_ray.py"
FINISHES: Final = "finishes"
_LOW: Final = ("--num-cpus", "1", "--object-store-memory", "80000000")
_MARK: Final = f"RAY_WEBHOOK_DRAIN={os.getpid()}"


class Case(NamedTuple):
    """A worker of a Ray, what its RayCluster asks for, and the seconds its task still needs."""

    ray: str
    asked: str
    needs: int

    @property
    def binaries(self) -> Path:
        return ROOT / ".cache" / self.ray / "bin"


DONE: Final = 10
"""Seconds for which a task has worked when its pod is deleted."""

CASES: Final = (
    Case("ray-2.56.1", "", 15), Case("ray-2.56.1", "60", 15), Case("ray-2.56.1", "60", 45),
    Case("ray-2.56.1", "60", 90), Case("ray", "", 15), Case("ray", "", 45), Case("ray", "60", 45),
    Case("ray", "60", 90),
)  # fmt: skip


NAME: Final = "RAY_CLOUD_INSTANCE_ID"
"""The variable by which KubeRay names a pod to Ray."""


class Pod:
    """The first container of a pod, whose command is given; KubeRay names it to Ray."""

    def __init__(self, pod: Json, name: str, command: list[str], others: Mapping[str, str]) -> None:
        container = pod["spec"]["containers"][0]
        own = {entry["name"]: entry["value"] for entry in container.get("env") or []}
        self._environment = {**others, **own, NAME: name}
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
        kill(f"{NAME}={self._name}")
        self._process.wait()

    def _wait(self, process: subprocess.Popen[bytes], begun: float) -> None:
        """Wait for a process until it ends or the grace period is over."""
        while process.poll() is None and time.monotonic() - begun < self._grace:
            time.sleep(0.1)


def kill(variable: str) -> None:
    """Kill every process that was started with a variable, such as `NAME=value`."""
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            environment = (directory / "environ").read_bytes().split(b"\0")
            if variable.encode() in environment and int(directory.name) != os.getpid():
                os.kill(int(directory.name), signal.SIGKILL)
        except OSError:
            continue  # it has ended, or is somebody else's


def main() -> int:
    rows, bad = [], []
    for case in CASES:
        lost = tried(case)
        rows.append(
            f"| {_version(case)} | {case.asked or 'not asked for'} | {case.needs} s "
            f"| {'is killed' if lost else 'finishes'} | {lost} s |\n"
        )
        print(rows[-1], end="", flush=True)
        if case.asked and (lost == 0) != (case.needs < int(case.asked)):
            bad.append(case)
    head = "| Ray | `drain-seconds` | the task needs | and | work lost |\n|---|---|---|---|---|\n"
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{head}{''.join(rows)}\n{END}{after}")
    return 1 if bad else 0


def tried(case: Case) -> int:
    """Return the seconds of work that a task loses whose pod is deleted after it has worked."""
    folder = Path(tempfile.mkdtemp(prefix="drain-"))
    port = free_port()
    address = f"127.0.0.1:{port}"
    key, _, value = _MARK.partition("=")
    others = {
        **os.environ,
        key: value,
        "PATH": f"{case.binaries}:{os.environ['PATH']}",
        "RAY_ADDRESS": address,
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    start = ["ray", "start", "--block"]
    head = [*start, "--head", "--port", str(port), "--num-cpus", "0", *_LOW[2:]]
    head += ["--include-dashboard", "false", "--temp-dir", str(folder)]
    try:
        Pod(_pod(case, ""), "head", head, others)
        until(lambda: accepts_connections(port), "the head listens")
        join = [*start, "--address", address, *_LOW]
        worker = Pod(_pod(case, case.asked), "worker", join, others)
        begun_file = folder / "begun"
        driver = subprocess.Popen(
            ["python", DRIVER, address, str(DONE + case.needs), begun_file],
            env=others,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        until(begun_file.exists, "the task begins")
        begun = time.monotonic()
        time.sleep(DONE)
        worker.delete()
        ended = time.monotonic()
        said = json.loads(driver.communicate(timeout=60)[0])
    finally:
        kill(_MARK)
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if said == FINISHES else round(ended - begun)


def _pod(case: Case, asked: str) -> Json:
    """Return the worker as it is admitted, where its RayCluster asks for a drain or for nothing."""
    cluster = a_cluster("c").group("g")
    if asked:
        cluster = cluster.opting(drain_seconds=asked)
    container = {"name": "ray-worker", "image": f"rayproject/ray:{_version(case)}"}
    pod = a_pod().of("c").worker("g")
    return decide(pod.spec(containers=[container], terminationGracePeriodSeconds=30), cluster).pod


def _version(case: Case) -> str:
    command = [str(case.binaries / "python"), "-c", "import ray; print(ray.__version__)"]
    return subprocess.check_output(command, text=True).strip()


if __name__ == "__main__":
    sys.exit(main())
