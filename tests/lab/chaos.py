"""Chaos tests on a real control plane: `python -m tests.lab.chaos --seed 1 --seconds 120`. No
identity may ever be held twice.

Several webhook processes behind a balancer, KubeRay with its gate off, RayClusters that start and
lose pods, and a failure every few seconds: SIGKILL, SIGSTOP, etcd stopped, both at the same time,
the API server restarted, a rolling restart.
"""

import argparse
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from time import monotonic, sleep

from tests.e2e.api import PODS, RAY_CLUSTERS, ApiError
from tests.e2e.balancer import Balancer
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kuberay import Operator
from tests.e2e.needs import CLIENT_RATE
from tests.e2e.process import NO_ANSWER, Program, free_port, says_ready
from tests.e2e.rays import HOSTS, slices, wait_for_workers, workers
from tests.e2e.waiting import Repeated
from tests.e2e.webhook_process import Webhook
from tests.harness.identities import identity_of

NAMESPACE = "chaos"
PROCESSES = 3
LAG_SECONDS = 1.0
LOOK_SECONDS = 0.7
BACK_OFF_SECONDS = 150
"""After many failures KubeRay waits up to 1000 s, unless the RayCluster changes."""


class Fleet(Webhook):
    """`count` processes behind a balancer, which forgets a dead one after `lag` seconds."""

    def __init__(self, plane: ControlPlane, count: int, lag: float) -> None:
        super().__init__(plane)
        self.ports = [(free_port(), free_port()) for _ in range(count)]
        self.members: list[Program] = [self._process(port, admin) for port, admin in self.ports]
        self._balancer = Balancer(
            self._port, [(port, partial(says_ready, admin)) for port, admin in self.ports], lag
        )

    @property
    def ready(self) -> bool:
        return all(says_ready(admin) for _, admin in self.ports)

    def start(self) -> None:
        for member in self.members:
            member.start()
        self.members[0].wait_until(lambda: self.ready)
        self._balancer.start()

    def stop(self) -> None:
        self._balancer.stop()
        for member in self.members:
            send(member, signal.SIGCONT)
            member.stop()

    def restart(self, number: int, *, at_once: bool) -> None:
        member, (_, admin) = self.members[number], self.ports[number]
        send(member, signal.SIGCONT)
        member.kill() if at_once else member.stop()
        member.start()
        member.wait_until(lambda: says_ready(admin))


def send(program: Program, what: signal.Signals) -> None:
    if program.pid is not None:
        os.kill(program.pid, what)


def pause(program: Program, seconds: float) -> None:
    """Stop a program, as a node that hangs does, and let it go on."""
    send(program, signal.SIGSTOP)
    sleep(seconds)
    send(program, signal.SIGCONT)


class Watchman:
    """Lists the pods again and again, and notes every identity that two live ones hold."""

    def __init__(self, plane: ControlPlane) -> None:
        self.looks = 0
        self.doubles: set[str] = set()
        self._plane = plane

    def look(self) -> None:
        held = Counter(
            identity[:4]
            for pod in workers(self._plane.api, NAMESPACE)
            if (identity := identity_of(pod))
        )
        self.doubles |= {str(identity) for identity, count in held.items() if count > 1}
        self.looks += 1


class Chaos:
    """What may break, chosen by a seed."""

    def __init__(self, plane: ControlPlane, fleet: Fleet, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - a story, not a secret
        self.done: Counter[str] = Counter()
        self._plane = plane
        self._fleet = fleet
        # No one else stops it
        self._etcd = next(program for program in plane._programs if program.name == "etcd")  # noqa: SLF001
        self._kinds: dict[str, Callable[[], None]] = {
            "SIGKILL": lambda: fleet.restart(self._any(), at_once=True),
            "SIGSTOP for 4 s": lambda: pause(fleet.members[self._any()], 4.0),
            "etcd stopped for 2 s": lambda: pause(self._etcd, 2.0),
            "etcd stopped for 2 s, and SIGKILL of all": self._stop_etcd_and_kill,
            "API server restarted": self._restart_api_server,
            "rolling restart": self._roll,
            "pods deleted": self._delete_pods,
        }

    def strike(self) -> None:
        kind = self.random.choice(list(self._kinds))
        self.done[kind] += 1
        with suppress(ApiError, *NO_ANSWER):
            self._kinds[kind]()

    def _any(self) -> int:
        return self.random.randrange(len(self._fleet.members))

    def _stop_etcd_and_kill(self) -> None:
        send(self._etcd, signal.SIGSTOP)
        sleep(1.0)
        for member in self._fleet.members:
            member.kill()
            member.start()
        sleep(1.0)
        send(self._etcd, signal.SIGCONT)

    def _restart_api_server(self) -> None:
        self._plane.stop_api_server()
        self._plane.start_api_server()

    def _roll(self) -> None:
        for number in range(len(self._fleet.members)):
            self._fleet.restart(number, at_once=False)

    def _delete_pods(self) -> None:
        there = workers(self._plane.api, NAMESPACE)
        for pod in self.random.sample(there, min(len(there), 8)):
            self._plane.api.delete(PODS, pod["metadata"]["name"], NAMESPACE, grace=0)


def run(
    plane: ControlPlane, seed: int, seconds: float, *, clusters: int = 10, replicas: int = 5
) -> str:
    """Return which identities were held twice; nothing when none was. Prints what happened."""
    plane.namespace(NAMESPACE)
    names = [f"chaos-{number}" for number in range(clusters)]
    wanted = clusters * replicas * HOSTS
    watchman = Watchman(plane)
    flags = ("--qps=500", "--burst=1000") if CLIENT_RATE.is_met else ()
    with (
        Fleet(plane, PROCESSES, LAG_SECONDS) as fleet,
        Operator(plane, multi_host_indexing=False, reconcile_concurrency=10, flags=flags),
        Repeated(watchman.look, LOOK_SECONDS),
    ):
        for name in names:
            plane.api.create(RAY_CLUSTERS, slices(name, replicas), NAMESPACE)
        chaos = Chaos(plane, fleet, seed)
        end = monotonic() + seconds
        while monotonic() < end:
            chaos.strike()
            sleep(chaos.random.uniform(0.5, 2.0))
        calm = monotonic()
        try:
            pods = wait_for_workers(plane.api, NAMESPACE, wanted, seconds=BACK_OFF_SECONDS)
        except AssertionError:
            print("  KubeRay pauses for long, and is made to look again")
            for name in names:
                annotation = {"metadata": {"annotations": {"retry": "1"}}}
                plane.api.patch(RAY_CLUSTERS, name, annotation, NAMESPACE)
            pods = wait_for_workers(plane.api, NAMESPACE, wanted, seconds=300)
        took = monotonic() - calm
        watchman.look()
    for name in names:
        plane.delete_ray_cluster(name, NAMESPACE)
    print(f"\n  seed {seed}: {dict(chaos.done)}")
    print(f"  {len(pods)} pods complete {took:.1f} s after the last; ", end="")
    print(f"{watchman.looks} looks; {len(watchman.doubles)} identities held twice")
    return "; ".join(sorted(watchman.doubles))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120)
    options = parser.parse_args()
    with ControlPlane() as plane:
        problem = run(plane, options.seed, options.seconds)
    if problem:
        print(f"held twice: {problem}")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
