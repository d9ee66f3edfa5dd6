"""Reviews over HTTPS, at saturation and at 50 per second, compared with the null handler on the
same uvicorn; and reviews of pods during the validation of a large RayCluster.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from multiprocessing import Process
from pathlib import Path
from typing import NamedTuple

from tests.harness.server import PROGRAM, Running, ready, serving
from tests.lab.bench.load import Result, drive, posts
from tests.lab.bench.reviews import (
    Body,
    head_bodies,
    large_bodies,
    ray_bodies,
    review_bodies,
    state,
)

ROUNDS = 9
SECONDS = 1.0
LOADS = ((1, 0.0), (16, 0.0), (10, 50.0))
"""Connections, and reviews a second; 0 is as many as are answered."""
REVIEWS: dict[str, tuple[Callable[[], Iterator[bytes]], str]] = {
    **{str(kind): (partial(review_bodies, kind), "/mutate") for kind in Body},
    "head": (head_bodies, "/mutate"),
    "69 KB pod": (large_bodies, "/mutate"),
    "1 group": (partial(ray_bodies, 1), "/validate"),
    "100 groups": (partial(ray_bodies, 100), "/validate"),
}
"""The bodies of a target, and where they are posted."""
NULL = "null"
LARGE_NULL = "null, 69 KB"
GROUPS = 400
"""Worker groups of the RayCluster that is validated beside pods."""
BESIDE_SECONDS = 5.0
BESIDE_RATE = 500.0


class Target(NamedTuple):
    """A server under load, and the requests that it gets."""

    name: str
    server: Running
    requests: Iterator[bytes]


class Sample(NamedTuple):
    """One slice of load: the client's view, and the server's CPU time in microseconds a request."""

    result: Result
    cpu: float


def main() -> None:
    cores = sorted(os.sched_getaffinity(0))
    server, client = cores[0], cores[-1]
    say(f"reviews over TLS keep-alive; server on core {server}, client on core {client};")
    say(f"medians of {ROUNDS} rounds of {SECONDS:.0f} s, in which the targets take turns")
    pin = ("taskset", "-c", str(server)) if shutil.which("taskset") and server != client else ()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        targets = [
            Target(
                kind,
                stack.enter_context(webhook(Path(folder) / str(number), pin)),
                posts(bodies(), path),
            )
            for number, (kind, (bodies, path)) in enumerate(REVIEWS.items())
        ]
        null = stack.enter_context(_null(Path(folder) / "0", pin))
        targets.append(Target(NULL, null, posts(review_bodies(), "/mutate")))
        targets.append(Target(LARGE_NULL, null, posts(large_bodies(), "/mutate")))
        os.sched_setaffinity(0, {client})
        for connections, rate in LOADS:
            _compare(targets, connections, rate)
        _beside(targets[0])
        os.sched_setaffinity(0, set(cores))


def _compare(targets: list[Target], connections: int, rate: float) -> None:
    samples: dict[str, list[Sample]] = {target.name: [] for target in targets}
    for number in range(ROUNDS):
        for target in targets if number % 2 else reversed(targets):
            samples[target.name].append(measured(target, connections, rate))
    load = f"{rate:.0f} a second" if rate else f"{connections} connections"
    say(
        f"\n{load:<24} {'requests/s':>10} {'p50 us':>8} {'p99 us':>8} {'server CPU us':>14} "
        f"{'to null':>8} {'client busy':>12}"
    )
    for name, taken in samples.items():
        rates = statistics.median(sample.result.rate for sample in taken)
        middle = statistics.median(sample.result.percentile(0.5) for sample in taken)
        tail = statistics.median(sample.result.percentile(0.99) for sample in taken)
        cpu = statistics.median(sample.cpu for sample in taken)
        busy = statistics.median(sample.result.busy for sample in taken)
        null = samples[LARGE_NULL if "69 KB" in name else NULL]
        ratio = statistics.median(a.cpu / b.cpu for a, b in zip(taken, null, strict=True))
        say(
            f"  {name:<22} {rates:>10.0f} {middle:>8.0f} {tail:>8.0f} {cpu:>14.1f} {ratio:>8.2f} "
            f"{busy:>11.0%}"
        )


def _beside(target: Target) -> None:
    """Print the latency of pods alone, and while a client validates a large RayCluster again and
    again. The client is a process of its own.
    """
    say(f"\n{BESIDE_RATE:.0f} labelled pods a second {'p50 us':>8} {'p99 us':>8}")
    for name in ("alone", f"beside a RayCluster of {GROUPS} groups", "alone"):
        with ExitStack() as stack:
            if name != "alone":
                client = Process(
                    target=_validate, args=(target.server.port, target.server.authority)
                )
                client.start()
                stack.callback(client.join)
                stack.callback(client.terminate)
            result = drive(
                target.server.port, target.server.authority, target.requests, connections=10,
                seconds=BESIDE_SECONDS, rate=BESIDE_RATE,
            )  # fmt: skip
        say(f"  {name:<36} {result.percentile(0.5):>8.0f} {result.percentile(0.99):>8.0f}")


def _validate(port: int, authority: Path) -> None:
    requests = posts(ray_bodies(GROUPS), "/validate")
    drive(port, authority, requests, connections=1, seconds=BESIDE_SECONDS * 2)


def measured(target: Target, connections: int, rate: float) -> Sample:
    authority, process = target.server.authority, target.server.process
    before = cpu_seconds(process.pid)
    result = drive(
        target.server.port, authority, target.requests, connections=connections, seconds=SECONDS,
        rate=rate,
    )  # fmt: skip
    return Sample(result, (cpu_seconds(process.pid) - before) / len(result.latencies) * 1e6)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process; /proc/PID/stat counts ticks of 10 ms."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def webhook(
    directory: Path, pin: tuple[str, ...], program: Sequence[str] = PROGRAM
) -> AbstractContextManager[Running]:
    directory.mkdir()
    path = directory / "state.json"
    path.write_text(json.dumps(state()))
    return serving(directory, [path], launcher=pin, program=program)


@contextmanager
def _null(directory: Path, pin: tuple[str, ...]) -> Iterator[Running]:
    command = [*pin, sys.executable, "-m", "tests.lab.bench.null", str(directory)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            url, admin = ready(process)
            yield Running(url, admin, directory / "ca.crt", process, directory / "none")
        finally:
            process.terminate()
            process.wait(10)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
