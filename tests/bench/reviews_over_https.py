"""Reviews over HTTPS: the real mutation of a TPU pod, beside the null handler on
the same uvicorn.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.bench.load import Result, drive, posts
from tests.bench.reviews import CLUSTER, Body, review_bodies
from tests.server import PROGRAM, Running, ready, serving

ROUNDS = 9
SECONDS = 1.0


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
    """Measure and print."""
    cores = sorted(os.sched_getaffinity(0))
    server, client = cores[0], cores[-1]
    size = len(next(review_bodies()))
    say(
        f"reviews of {size} bytes over TLS keep-alive; server on core {server}, client on core "
        f"{client};"
    )
    say(
        f"medians of {ROUNDS} rounds of {SECONDS:.0f} s, targets taking turns; null = bare ASGI "
        "handler on the same uvicorn;"
    )
    say(
        "labelled = workers with the seat labels of KubeRay 1.6 and later; fresh = workers "
        "without; named = workers with a"
    )
    say("name of their own, so that no review is like another")
    pin = ("taskset", "-c", str(server)) if shutil.which("taskset") and server != client else ()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        targets = [
            Target(
                kind,
                stack.enter_context(webhook(Path(folder) / kind, pin)),
                posts(review_bodies(kind), "/mutate"),
            )
            for kind in Body
        ]
        null = stack.enter_context(_null(Path(folder) / Body.FRESH, pin))
        targets.append(Target("null", null, posts(review_bodies(), "/mutate")))
        os.sched_setaffinity(0, {client})
        for connections, rate in ((1, 0.0), (16, 0.0), (10, 500.0)):
            _compare(targets, connections, rate)
        os.sched_setaffinity(0, set(cores))


def _compare(targets: list[Target], connections: int, rate: float) -> None:
    samples: dict[str, list[Sample]] = {target.name: [] for target in targets}
    for number in range(ROUNDS):
        for target in targets if number % 2 else reversed(targets):
            samples[target.name].append(measured(target, connections, rate))
    load = (
        f"{rate:.0f} a second over {connections}"
        if rate
        else f"{connections} connection{'s' if connections > 1 else ''}"
    )
    say(
        f"\n{load:<24} {'requests/s':>10} {'p50 us':>8} {'p99 us':>8} {'server CPU us':>14} "
        f"{'client busy':>12}"
    )
    for name, taken in samples.items():
        rates = statistics.median(sample.result.rate for sample in taken)
        middle = statistics.median(sample.result.percentile(0.5) for sample in taken)
        tail = statistics.median(sample.result.percentile(0.99) for sample in taken)
        cpu = statistics.median(sample.cpu for sample in taken)
        busy = statistics.median(sample.result.busy for sample in taken)
        say(f"  {name:<22} {rates:>10.0f} {middle:>8.0f} {tail:>8.0f} {cpu:>14.1f} {busy:>11.0%}")
    for name in Body:
        pairs = list(zip(samples["null"], samples[name], strict=True))
        by_rate = statistics.median(real.result.rate / null.result.rate for null, real in pairs)
        by_cpu = statistics.median(null.cpu / real.cpu for null, real in pairs)
        say(f"  {name} to null: by rate {by_rate:.2f}, by server CPU a request {by_cpu:.2f}")


def measured(target: Target, connections: int, rate: float) -> Sample:
    """Return what a second of load shows."""
    authority, process = target.server.authority, target.server.process
    before = cpu_seconds(process.pid)
    result = drive(
        target.server.port,
        authority,
        target.requests,
        connections=connections,
        seconds=SECONDS,
        rate=rate,
    )
    return Sample(result, (cpu_seconds(process.pid) - before) / len(result.latencies) * 1e6)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process; /proc/PID/stat counts ticks of 10 ms."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def webhook(
    directory: Path, pin: tuple[str, ...], program: Sequence[str] = PROGRAM
) -> AbstractContextManager[Running]:
    """Serve the bench's RayCluster on the cores of `pin`."""
    directory.mkdir()
    state = directory / "state.json"
    state.write_text(json.dumps(CLUSTER))
    return serving(directory, [state], launcher=pin, program=program)


@contextmanager
def _null(directory: Path, pin: tuple[str, ...]) -> Iterator[Running]:
    command = [*pin, sys.executable, "-m", "tests.bench.null", str(directory)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            url, admin = ready(process)
            yield Running(url, admin, directory / "ca.crt", process, directory / "none")
        finally:
            process.terminate()
            process.wait(10)


def say(text: str) -> None:
    """Print one line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
