"""Measurements of reservations and availability on a real control plane, whose etcd syncs to disk:
`python -m tests.e2e.figures [PART]`.

KubeRay's gate is off, so each pod needs a reservation. Two processes with Leases are compared with
one process with reservations in memory; both are behind the same balancer. The output names the
command of every figure, and none is a test.
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from operator import itemgetter
from threading import Event, Thread
from time import monotonic, sleep, time
from typing import ClassVar, NamedTuple, Self

from tests.e2e.api import PODS, RAY_CLUSTERS, ApiError, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.fleet import Fleet
from tests.e2e.kuberay import UNTHROTTLED, Operator
from tests.e2e.large import large
from tests.e2e.rays import HOSTS, slices, stored, worker_of
from tests.e2e.waiting import until
from tests.e2e.webhook_process import admissions_in
from webhook.api import names

LAG = 1.0
"""Seconds for which the balancer continues using a process that is not ready, as kube-proxy
does.
"""

DRAIN = {"RAY_WEBHOOK_SERVING__DRAIN_SECONDS": "3"}


class InMemory(Fleet):
    """One process with claims in memory."""

    program: ClassVar[Sequence[str]] = ("-m", "tests.e2e.in_memory")


def leases(
    plane: ControlPlane, lag: float = LAG, settings: Mapping[str, str] | None = None
) -> Fleet:
    return Fleet(plane, 2, lag, settings)


def in_memory(plane: ControlPlane) -> Fleet:
    return InMemory(plane, 1, LAG)


class Run(NamedTuple):
    """How long something took, and the CPU of all processes, without that of probes: seconds, and
    milliseconds a pod.
    """

    seconds: float
    cpu: float


def load(fleet: Fleet, pods: int, work: Callable[[], object]) -> Run:
    idle, before, started = fleet.idle_cpu(), fleet.cpu, monotonic()
    work()
    seconds = monotonic() - started
    return Run(seconds, (fleet.cpu - before - idle * seconds) / pods * 1e3)


def bring_up(
    plane: ControlPlane,
    clusters: Sequence[Json],
    flags: tuple[str, ...],
    fleet: Fleet,
    begun: Callable[[], None] = lambda: None,
    reconcilers: int = 10,
) -> Run:
    """Let KubeRay create all pods; delete them again. `begun` is called once it runs."""
    namespace = plane.namespace("figures")
    groups = [cluster["spec"]["workerGroupSpecs"][0] for cluster in clusters]
    wanted = sum(group["replicas"] for group in groups) * HOSTS

    def come_up() -> None:
        for cluster in clusters:
            plane.api.create(RAY_CLUSTERS, cluster, namespace)
        begun()
        enough = wanted + len(clusters)  # with their heads
        until(lambda: stored(plane.api, namespace) >= enough, f"{enough} pods", 400)

    with Operator(plane, multi_host_indexing=False, reconcile_concurrency=reconcilers, flags=flags):
        run = load(fleet, wanted, come_up)
    for cluster in clusters:
        plane.delete_ray_cluster(cluster["metadata"]["name"], namespace, seconds=90)
    return run


def measure_single_reviews(plane: ControlPlane, _rounds: int) -> None:
    """One pod after the other: how long a review takes, and its CPU. What two processes take more
    for pods without an identity than for pods that carry theirs is the claim's.
    """
    for name, make, carried in (
        ("in memory", in_memory, False),
        ("Leases, identity carried", leases, True),
        ("Leases", leases, False),
    ):
        namespace = plane.namespace("alone")
        cluster = plane.api.create(RAY_CLUSTERS, slices("alone", 125, 500), namespace)
        pod = worker_of(cluster)
        pods = [has_identity(pod, number) if carried else pod for number in range(500)]
        with make(plane) as fleet:
            run = load(fleet, 500, partial(create, plane, namespace, pods))
            took = sorted(review["ms"] for review in reviews(fleet))
            writes, seconds = (
                fleet.total(f"ray_webhook_reservation_{each}_total")
                for each in ("writes", "seconds")
            )
        say(
            f"a review alone, {name}: p50 {took[len(took) // 2]:.2f} ms, "
            f"p99 {took[int(len(took) * 0.99)]:.2f} ms, CPU {run.cpu:.2f} ms, {len(took)} reviews; "
            f"{writes:.0f} writes; {seconds / max(writes, 1) * 1e3:.2f} ms a reservation"
        )
        plane.delete_ray_cluster("alone", namespace, seconds=90)


def has_identity(pod: Json, number: int) -> Json:
    replica, host = divmod(number, HOSTS)
    labels = pod["metadata"]["labels"]
    name = f"{labels[names.LABEL_GROUP]}-{replica:05}"
    identity = dict(zip(names.IDENTITY_LABELS, (str(replica), name, str(host)), strict=True))
    return {**pod, "metadata": {**pod["metadata"], "labels": labels | identity}}


def create(plane: ControlPlane, namespace: str, pods: Sequence[Json]) -> None:
    for pod in pods:
        plane.api.create(PODS, pod, namespace)


def thousand(plane: ControlPlane, rounds: int, flags: tuple[str, ...], name: str) -> None:
    """1,000 pods of 10 RayClusters, with Leases beside in memory."""
    clusters = [slices(f"thousand-{number}", 25) for number in range(10)]
    taken: dict[str, list[Run]] = {"memory": [], "leases": []}
    makers = {"memory": in_memory, "leases": leases}
    for number in range(rounds):
        for kind in sorted(makers, reverse=bool(number % 2)):
            with makers[kind](plane) as fleet:
                taken[kind].append(bring_up(plane, clusters, flags, fleet))
        say(f"  round {number}: {[taken[kind][-1] for kind in makers]}")
    ratios = sorted(
        shared.seconds / one.seconds
        for one, shared in zip(taken["memory"], taken["leases"], strict=True)
    )
    for kind, runs in taken.items():
        seconds = statistics.median(run.seconds for run in runs)
        cpu = statistics.median(run.cpu for run in runs)
        say(f"1,000 pods, {name}, {kind}: median {seconds:.1f} s, CPU a pod {cpu:.2f} ms")
    say(
        f"1,000 pods, {name}: Leases to memory {statistics.median(ratios):.3f} "
        f"({ratios[0]:.3f} to {ratios[-1]:.3f})"
    )


def killed(plane: ControlPlane, rounds: int) -> None:
    """200 pods while one of two is killed every 5 s, beside the same undisturbed; with a balancer
    that skips the dead at once, and with one that is late. KubeRay looks at one RayCluster at a
    time, as it ships.
    """
    clusters = [slices(f"killed-{number}", 25) for number in range(2)]
    taken: dict[str, list[float]] = {"undisturbed": [], "skipped at once": [], "late": []}
    for _ in range(rounds):
        for kind, seconds in taken.items():
            fleet = leases(plane, 0.0 if kind == "skipped at once" else LAG)
            with fleet, killing(fleet, every=5.0, on=kind != "undisturbed") as begin:
                run = bring_up(plane, clusters, (), fleet, begin, reconcilers=1)
                seconds.append(run.seconds)
        say(f"  {', '.join(f'{seconds[-1]:.2f} s {kind}' for kind, seconds in taken.items())}")
    medians = (f"{statistics.median(seconds):.2f} s {kind}" for kind, seconds in taken.items())
    say(f"200 pods, one of two killed every 5 s, medians: {', '.join(medians)}")


@contextmanager
def killing(fleet: Fleet, every: float, *, on: bool) -> Iterator[Callable[[], None]]:
    """Kill one after the other once told to begin, if at all."""
    end, began = Event(), Event()

    def kill() -> None:
        began.wait()
        number = 0
        while not end.wait(every if number else 1.0):
            fleet.restart(number % len(fleet.members), at_once=True)
            number += 1

    thread = Thread(target=kill, daemon=True)
    if on:
        thread.start()
    try:
        yield began.set
    finally:
        end.set()
        began.set()
        if on:
            thread.join()


class Asking:
    """Creates pods all the time, and notes when one was refused."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        self.refused: list[float] = []
        self.created = 0
        self._plane = plane
        self._namespace = plane.namespace("asking")
        self._name = name
        self._cluster = plane.api.create(RAY_CLUSTERS, slices(name, 400, 2000), self._namespace)
        self._end = Event()
        self._threads = [Thread(target=self._ask, daemon=True) for _ in range(4)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        until(lambda: self.created > 8, "pods are created")
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()
        self._plane.delete_ray_cluster(self._name, self._namespace, seconds=90)

    def _ask(self) -> None:
        pod = worker_of(self._cluster)
        while not self._end.wait(0.1):
            started = monotonic()
            try:
                self._plane.api.create(PODS, pod, self._namespace)
                self.created += 1
            except (ApiError, OSError):
                self.refused.append(started)


def rolling(plane: ControlPlane, _rounds: int) -> None:
    with leases(plane, settings=DRAIN) as fleet, Asking(plane, "rolling") as asking:
        for number in (0, 1) * 3:
            fleet.restart(number, at_once=False)
            sleep(1)
    say(f"three rolling restarts: {len(asking.refused)} of {asking.created} creations refused")


def crash(plane: ControlPlane, rounds: int) -> None:
    """For how long pods are refused when one of two is killed."""
    for lag in (0.0, LAG):
        windows = []
        with leases(plane, lag) as fleet, Asking(plane, f"crash-{lag:.0f}") as asking:
            for number in range(rounds):
                asking.refused.clear()
                at = monotonic()
                fleet.restart(number % 2, at_once=True)
                sleep(lag + 1)
                windows.append(max((when - at for when in asking.refused), default=0.0))
        say(
            f"SIGKILL of one of two, a balancer {lag:g} s late: refused for at most "
            f"{max(windows):.2f} s, median {statistics.median(windows):.2f} s, {rounds} rounds"
        )


def orphans(plane: ControlPlane, _rounds: int) -> None:
    """Both are killed while pods are being created: how long until all stand, and when KubeRay
    tried the RayCluster that stood last.
    """
    clusters = [slices(f"orphans-{number}", 5) for number in range(10)]
    killed_at = 0.0

    def kill_all() -> None:
        nonlocal killed_at
        sleep(0.5)  # some 100 pods are there
        killed_at = time()
        for member in fleet.members:
            member.kill()
        for member in fleet.members:
            member.start()

    with leases(plane) as fleet:
        run = bring_up(plane, clusters, UNTHROTTLED, fleet, kill_all)
        pod_reviews = sorted(_pod_reviews(fleet), key=itemgetter("time"))
    say(f"200 pods, both processes killed in the middle: all stand after {run.seconds:.1f} s")
    last = next(each["cluster"] for each in reversed(pod_reviews) if each["verdict"] == "patched")
    tries = [
        f"{datetime.fromisoformat(each['time']).timestamp() - killed_at:.1f} {each['verdict']}"
        for each in pod_reviews
        if each.get("cluster") == last
    ]
    say(f"  {last}, seconds after that: {', '.join(tries)}")


def reviews(fleet: Fleet) -> list[Json]:
    return [each for each in _pod_reviews(fleet) if each["verdict"] == "patched"]


def _pod_reviews(fleet: Fleet) -> list[Json]:
    return [each for member in fleet.members for each in admissions_in(member.log, "Pod")]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def large_cluster(_plane: ControlPlane, _rounds: int) -> None:
    """10,000 pods of 100 RayClusters, with one process and with three."""
    for processes in (1, 3):
        large(processes, say)


PARTS: dict[str, Callable[[ControlPlane, int], None]] = {
    "alone": measure_single_reviews,
    "rolling": rolling,
    "crash": crash,
    "orphans": orphans,
    "killed": killed,
    "shipped": partial(thousand, flags=(), name="as KubeRay ships"),
    "unthrottled": partial(thousand, flags=UNTHROTTLED, name="unthrottled"),
    "large": large_cluster,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], default=[*PARTS])
    parser.add_argument("--rounds", type=int, default=10, help="of pairs that take turns")
    arguments = parser.parse_args()
    with ControlPlane(fsync=True) as plane:
        for part in arguments.part:
            PARTS[part](plane, arguments.rounds)


if __name__ == "__main__":
    main()
