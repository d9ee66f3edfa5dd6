"""Delete workers of real Rays during a task, and write docs/contributing/measurements.md."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tests import ROOT
from tests.builders import a_cluster, a_pod, decide
from tests.lab.drain.pod import Json, Pod, kill

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


DONE: Final = 10
"""Seconds for which a task has worked when its pod is deleted."""

CASES: Final = (
    Case("ray-2.56.1", "", 15), Case("ray-2.56.1", "60", 15), Case("ray-2.56.1", "60", 45),
    Case("ray-2.56.1", "60", 90), Case("ray", "", 15), Case("ray", "", 45), Case("ray", "60", 45),
    Case("ray", "60", 90),
)  # fmt: skip


class Outcome(NamedTuple):
    """What became of the task, and how much work was lost, in seconds."""

    version: str
    said: str
    lost: int


def main() -> int:
    rows, bad = [], []
    for case in CASES:
        outcome = tried(case)
        rows.append(
            f"| {outcome.version} | {case.asked or 'not asked for'} | {case.needs} s "
            f"| {'finishes' if not outcome.lost else 'is killed'} | {outcome.lost} s |\n"
        )
        sys.stdout.write(rows[-1])
        sys.stdout.flush()
        if case.asked and (outcome.lost == 0) != (case.needs < int(case.asked)):
            bad.append(case)
    head = "| Ray | `drain-seconds` | the task needs | and | work lost |\n|---|---|---|---|---|\n"
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{head}{''.join(rows)}\n{END}{after}")
    return 1 if bad else 0


def tried(case: Case) -> Outcome:
    """Return what becomes of a task whose pod is deleted after it has worked for a while."""
    folder = Path(tempfile.mkdtemp(prefix="drain-"))
    binaries = ROOT / ".cache" / case.ray / "bin"
    key, _, value = _MARK.partition("=")
    others = {
        **os.environ,
        key: value,
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    others["RAY_ADDRESS"] = address
    start = [str(binaries / "ray"), "start", "--block"]
    head = [*start, "--head", "--port", str(port), "--num-cpus", "0", *_LOW[2:]]
    head += ["--include-dashboard", "false", "--temp-dir", str(folder)]
    try:
        Pod(_pod(case, ""), "head", head, others)
        _await(lambda: _listens(port), "the head")
        join = [*start, "--address", address, *_LOW]
        worker = Pod(_pod(case, case.asked), "worker", join, others)
        driver = subprocess.Popen(
            [
                str(binaries / "python"), str(DRIVER), address, str(DONE + case.needs),
                str(folder / "begun"),
            ],
            env=others,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        _await((folder / "begun").exists, "the task")
        begun = time.monotonic()
        time.sleep(DONE)
        worker.delete()
        ended = time.monotonic()
        said = json.loads(driver.communicate(timeout=60)[0])
    finally:
        kill(_MARK)
        shutil.rmtree(folder, ignore_errors=True)
    return Outcome(_version(binaries), said, 0 if said == FINISHES else round(ended - begun))


def _pod(case: Case, asked: str) -> Json:
    """Return the worker as it is admitted, where its RayCluster asks for a drain or for nothing."""
    cluster = a_cluster("c").group("g")
    if asked:
        cluster = cluster.opting(drain_seconds=asked)
    image = f"rayproject/ray:{_version(ROOT / '.cache' / case.ray / 'bin')}"
    container = {"name": "ray-worker", "image": image}
    pod = a_pod().of("c").worker("g")
    return decide(pod.spec(containers=[container], terminationGracePeriodSeconds=30), cluster).pod


def _version(binaries: Path) -> str:
    shown = subprocess.run(
        [str(binaries / "python"), "-c", "import importlib.metadata as m; print(m.version('ray'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return shown.stdout.strip()


def _listens(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def _await(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 90
    while not condition():
        if time.monotonic() > until:
            msg = f"{what} did not come up"
            raise TimeoutError(msg)
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
