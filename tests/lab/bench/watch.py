"""The watch: 100,000 pods listed and watched from a fake API server in another process, during
reviews.
"""

import asyncio
import gc
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

import msgspec
import uvloop

from tests.harness.fake_api import PODS, FakeApi, Object
from tests.harness.objects import a_pod, a_raycluster
from webhook.admission.pod_handler import PodHandler
from webhook.admission.reviewer import Mutation
from webhook.api.objects import RayCluster
from webhook.app.informers import Connected
from webhook.cache.live import ClusterState
from webhook.groups.group_config import ClusterIndex, read_cluster_config
from webhook.groups.identity import HostIdentity
from webhook.groups.identity_index import Membership
from webhook.kubeclient.access import Access
from webhook.kubeclient.client import Api
from webhook.reservation.identities import StandaloneIdentities

POD_COUNT: Final = 100_000
GROUP_PODS: Final = 256
HOSTS: Final = 4
POD_BYTES: Final = 12_000
BURST: Final = 2_000
BURSTS: Final = 100
REVIEW_EVERY: Final = 0.002


def main() -> None:
    """Measure and print; with the argument `serve`, be the server."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve() if sys.argv[1:] == ["serve"] else _measure())


def _pods(count: int) -> Iterator[Object]:
    """Yield worker pods of about 12 kB, in clusters of 256 with 4 hosts in a replica; they share
    their spec.
    """
    padding = [
        {"name": f"VARIABLE_{number}", "value": "x" * 100} for number in range(POD_BYTES // 140)
    ]
    spec = {"containers": [{"name": "ray", "image": "ray", "env": padding}]}
    for number in range(count):
        cluster, place = divmod(number, GROUP_PODS)
        replica, host = divmod(place, HOSTS)
        pod = a_pod(
            f"pod-{number}",
            HostIdentity(replica, host, f"tpu-r{replica:04}"),
            cluster=f"ray-{cluster}",
        )
        pod["metadata"]["uid"] = f"01234567-89ab-cdef-0123-{number:012}"
        yield {**pod, "spec": spec}


async def _serve() -> None:
    """Serve, and flood the watches each time a line comes in."""
    api = FakeApi(pieces=1)
    api.load(PODS, _pods(POD_COUNT))
    burst = [
        {"type": "MODIFIED", "object": pod}
        for pod in api._found(PODS, lambda _: True)[:BURST]  # noqa: SLF001
    ]
    lines = msgspec.json.Encoder().encode_lines(burst)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    async with api.serving():
        sys.stdout.write(f"{api.port}\n")
        sys.stdout.flush()
        while await reader.readline():
            for _ in range(BURSTS):
                api.tell(PODS, lines)


@asynccontextmanager
async def _server() -> AsyncIterator[tuple[Process, str]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.lab.bench.watch", "serve", stdin=PIPE, stdout=PIPE
    )
    try:
        assert process.stdout
        yield process, f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.kill()
        await process.wait()


@dataclass
class Latencies:
    """How long reviews took, from when they were due, in milliseconds."""

    values: list[float]

    def __str__(self) -> str:
        """Return the figures that matter."""
        ordered = sorted(self.values)
        picks = [ordered[int(len(ordered) * share)] for share in (0.5, 0.99)]
        return (
            f"p50 {picks[0]:.2f}, p99 {picks[1]:.2f}, longest {ordered[-1]:.2f} ms, "
            f"{len(ordered)} reviews"
        )


async def _review(mutation: Mutation, latencies: list[float]) -> None:
    """Review a pod every 2 ms, in the loop that also follows the cluster; the identity is not kept,
    as in a dry run.
    """
    pod = next(_pods(1))
    for label in ("worker-group-replica-index", "worker-group-replica-name"):
        del pod["metadata"]["labels"][f"ray.io/{label}"]
    del pod["metadata"]["labels"]["ray.io/replica-host-index"]
    kinds = {
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
    }
    request = {
        "uid": "u",
        **kinds,
        "operation": "CREATE",
        "namespace": "default",
        "dryRun": True,
        "object": pod,
    }
    body = msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    )
    due = perf_counter()
    while True:
        due += REVIEW_EVERY
        await asyncio.sleep(max(0.0, due - perf_counter()))
        begun = min(due, perf_counter())  # a timer may be a little early
        outcome = await mutation.review(body)
        assert outcome.answer.allowed, outcome.answer
        latencies.append((perf_counter() - begun) * 1000)


def _rss() -> float:
    """Return the resident memory of this process in MiB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


async def _measure() -> None:
    async with _server() as (server, url):

        async def load() -> Access:
            return Access(url)

        members, clusters = Membership(), ClusterIndex()
        api = Api(load)
        state = ClusterState(api, clusters, members)
        clusters.put(
            read_cluster_config(
                msgspec.convert(a_raycluster("ray-0", replicas=GROUP_PODS // HOSTS + 1), RayCluster)
            )
        )
        mutation = Mutation(PodHandler(clusters, StandaloneIdentities(members)), state.reader)
        before, started = _rss(), perf_counter()
        task = asyncio.create_task(Connected(api, {"cluster": state}).run())
        await _until(task, state.pods_synced)
        synced, used = perf_counter() - started, _rss() - before
        assert len(members) == POD_COUNT
        await asyncio.sleep(0.5)
        quiet = await _reviews_while(mutation, asyncio.sleep(2.0))
        counters = state.pods[0].counters
        rate = await _flood(server, task, state)
        assert not counters.errors
        busy_rate: list[float] = []

        async def flood() -> None:
            busy_rate.append(await _flood(server, task, state))

        busy = await _reviews_while(mutation, flood())
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    _print(synced, used, rate, busy_rate[0], quiet, busy)


async def _until(task: "asyncio.Task[None]", condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, or raise what ended the task."""
    while not condition():
        if task.done():
            task.result()
        await asyncio.sleep(0.01)


async def _flood(server: Process, task: "asyncio.Task[None]", state: ClusterState) -> float:
    """Let the server send its events as fast as we take them, and return how many a
    second that is.
    """
    assert server.stdin
    counters = state.pods[0].counters
    target = counters.events + BURST * BURSTS
    started = perf_counter()
    server.stdin.write(b"\n")
    await _until(task, lambda: counters.events >= target)
    return BURST * BURSTS / (perf_counter() - started)


async def _reviews_while(mutation: Mutation, work: Awaitable[None]) -> Latencies:
    latencies: list[float] = []
    reviews = asyncio.create_task(_review(mutation, latencies))
    await work
    reviews.cancel()
    with suppress(asyncio.CancelledError):
        await reviews
    return Latencies(latencies)


def _print(
    synced: float, used: float, rate: float, busy_rate: float, quiet: Latencies, busy: Latencies
) -> None:
    rows = (
        (
            "seconds until synced",
            f"{synced:.1f}  ({POD_COUNT / synced:,.0f} pods/s, the server's time included)",
        ),
        (
            "MiB per 10,000 pods",
            f"{used / (POD_COUNT / 10_000):.1f}  (resident memory, {used:.0f} MiB in all)",
        ),
        ("events a second", f"{rate:,.0f}  ({rate * POD_BYTES / 1e6:,.0f} MB/s)"),
        ("events a second, with reviews", f"{busy_rate:,.0f}"),
        ("review, nothing to watch", str(quiet)),
        ("review, watch at full speed", str(busy)),
    )
    sys.stdout.write(
        f"\nwatch: {POD_COUNT:,} pods of {POD_BYTES // 1000} kB from a fake API server in another "
        "process\n"
    )
    for name, value in rows:
        sys.stdout.write(f"  {name:<30} {value}\n")


if __name__ == "__main__":
    main()
