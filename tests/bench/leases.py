"""How many Leases: writes, conflicts and live lists for 1,000 pods, in simulated time, so that the
machine has no part in it.

`python -m tests.bench.leases`. KubeRay creates the pods of a RayCluster one after the other, ten
RayClusters at a time; each review goes to the next process; a request to the API server takes 3 ms,
and a watch is 5 ms behind.
"""

import asyncio
import logging
import sys
from unittest.mock import patch

from tests.follow import agreement
from tests.follow.agreement import Model, Pod
from webhook.follow.errors import ApiError
from webhook.groups.seat import GroupKey

PODS = 1000
CLUSTERS = 10
TICK = 0.001
REQUEST_SECONDS = 0.003
WATCH_TICKS = 5


class Steady(Model):
    """A world without faults."""

    def tick(self, number: int) -> None:
        """Let a millisecond pass."""
        self.now += TICK
        due = [request for request in self.requests if request.since + REQUEST_SECONDS <= self.now]
        self.requests = [request for request in self.requests if request not in due]
        for request in due:
            try:
                result = request.carry_out()
            except ApiError as error:
                result = error
            self._answer(request, result)
        if number % WATCH_TICKS == 0:
            for process in self.processes:
                process.watch_pods(1 << 30)
                process.watch_leases(1 << 30)
        self._settle()

    def bring_up(self) -> tuple[float, int, int, int]:
        """Return the seconds for all pods, the writes, the conflicts, and the live lists."""
        self.groups = {GroupKey("ns", f"uid-{number}", "group"): 4 for number in range(CLUSTERS)}
        number = 0
        while not all(process.claims.known for process in self.processes) or self.now < 60:
            self.now += 0.25
            self.tick(number := number + 1)
        begun, before = self.now, self._counted()
        underway: dict[GroupKey, Pod] = {}
        left, turn = dict.fromkeys(self.groups, PODS // CLUSTERS), 0
        while underway or any(left.values()):
            for key, pod in [*underway.items()]:
                if pod.over:
                    left[key] += 1
                    del underway[key]
                elif pod.seat is not None:
                    pod.stored = True
                    self.server.tell(pod)
                    del underway[key]
            for key in self.groups:
                if left[key] and key not in underway:
                    left[key] -= 1
                    turn += 1
                    pod = underway[key] = Pod(key, f"pod-{turn}", self.now, claimed=True)
                    process = self.processes[turn % len(self.processes)]
                    self._start(process, self._admit(process, pod))
            self.tick(number := number + 1)
        self.check()
        writes, conflicts, reads = (
            after - earlier for after, earlier in zip(self._counted(), before, strict=True)
        )
        return self.now - begun, writes, conflicts, reads

    def _counted(self) -> tuple[int, int, int]:
        counters = [process.claims.counters for process in self.processes]
        return (
            sum(c.writes for c in counters),
            sum(c.conflicts for c in counters),
            sum(c.reads for c in counters),
        )


def main() -> None:
    """Measure and print."""
    logging.disable(logging.CRITICAL)
    sys.stdout.write(
        f"{PODS} pods of {CLUSTERS} RayClusters, {REQUEST_SECONDS * 1000:g} ms a request\n"
    )
    sys.stdout.write(
        f"{'processes':>10} {'Leases':>7} {'seconds':>8} {'writes':>7} {'conflicts':>10} "
        f"{'live lists':>11}\n"
    )
    for processes in (1, 2, 3):
        for leases in (1, 8, 64):
            with (
                patch.object(agreement, "LEASES", leases),
                patch.object(agreement.Store, "leases", leases),
            ):
                world = Steady(1, processes)
                seconds, writes, conflicts, reads = world.bring_up()
                world.close()
            sys.stdout.write(
                f"{processes:>10} {leases:>7} {seconds:>8.2f} {writes:>7} {conflicts:>10} "
                f"{reads:>11}\n"
            )
            sys.stdout.flush()
    asyncio.set_event_loop(None)


if __name__ == "__main__":
    main()
