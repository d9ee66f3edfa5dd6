"""Reviews over HTTPS, at saturation and at 50 per second, compared with the null handler on the
same uvicorn.
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


class Target(NamedTuple):
    """A server under load, the requests that it gets, and the target it is compared with."""

    name: str
    server: Running
    requests: Iterator[bytes]
    reference: str = NULL


class Sample(NamedTuple):
    """One slice of load: the client's view, and the server's CPU time in microseconds a request."""

    result: Result
    cpu: float


def main() -> None:
    with pinned() as pin, tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        targets = [
            Target(
                kind,
                stack.enter_context(webhook(Path(folder) / str(number), pin)),
                posts(bodies(), path),
                LARGE_NULL if bodies is large_bodies else NULL,
            )
            for number, (kind, (bodies, path)) in enumerate(REVIEWS.items())
        ]
        null = stack.enter_context(_null(Path(folder) / "0", pin))
        targets.append(Target(NULL, null, posts(review_bodies(), "/mutate")))
        targets.append(Target(LARGE_NULL, null, posts(large_bodies(), "/mutate"), LARGE_NULL))
        for connections, rate in LOADS:
            load = f"{rate:.0f} a second" if rate else f"{connections} connections"
            compare(load, targets, connections, rate)


@contextmanager
def pinned() -> Iterator[tuple[str, ...]]:
    """Run this process on the last core, and yield how to launch a server on the first."""
    cores = sorted(os.sched_getaffinity(0))
    server, client = cores[0], cores[-1]
    print(f"reviews over TLS keep-alive; server on core {server}, client on core {client};")
    print(f"medians of rounds of {SECONDS:.0f} s, in which the targets take turns")
    os.sched_setaffinity(0, {client})
    try:
        yield ("taskset", "-c", str(server)) if shutil.which("taskset") and server != client else ()
    finally:
        os.sched_setaffinity(0, set(cores))


def compare(
    title: str, targets: list[Target], connections: int, rate: float = 0, rounds: int = ROUNDS
) -> None:
    samples: dict[str, list[Sample]] = {target.name: [] for target in targets}
    for number in range(rounds):
        for target in targets if number % 2 else reversed(targets):
            samples[target.name].append(_measured(target, connections, rate))
    print(
        f"\n{title:<24} {'requests/s':>10} {'p50 us':>8} {'p99 us':>8} {'server CPU us':>14} "
        f"{'ratio':>8} {'client busy':>12}"
    )
    for target in targets:
        taken = samples[target.name]
        rates = statistics.median(sample.result.rate for sample in taken)
        middle = statistics.median(sample.result.percentile(0.5) for sample in taken)
        tail = statistics.median(sample.result.percentile(0.99) for sample in taken)
        cpu = statistics.median(sample.cpu for sample in taken)
        busy = statistics.median(sample.result.busy for sample in taken)
        pairs = zip(taken, samples[target.reference], strict=True)
        ratio = statistics.median(one.cpu / other.cpu for one, other in pairs)
        print(
            f"  {target.name:<22} {rates:>10.0f} {middle:>8.0f} {tail:>8.0f} {cpu:>14.1f} "
            f"{ratio:>8.3f} {busy:>11.0%}"
        )


def _measured(target: Target, connections: int, rate: float) -> Sample:
    pid = target.server.process.pid
    before = cpu_seconds(pid)
    result = drive(
        target.server, target.requests, connections=connections, seconds=SECONDS, rate=rate
    )
    return Sample(result, (cpu_seconds(pid) - before) / len(result.latencies) * 1e6)


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
