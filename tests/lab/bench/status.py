"""`status`: from the lists to the printed report, with 1,000 pods."""

import io
import sys
from collections.abc import Callable
from time import perf_counter

from rich.console import Console

from tests.harness.scenes import NOW, Observed, Scene, llama
from webhook.cli.cluster_tree import drawing
from webhook.cli.terminal import show

HOSTS = 4
TURNS = 5
BUDGET = 1.0
"""Seconds for 1,000 pods, after the lists."""


def main() -> None:
    """Measure and print. Fails when 1,000 pods take longer than the budget."""
    sys.stdout.write("\nstatus: after the lists; seconds (best of turns)\n")
    sys.stdout.write(f"  {'pods':>6} {'one is missing':>15} {'examined':>9} {'drawn':>9}\n")
    for pods in (100, 1_000):
        for missing in (False, True):
            observed = a_cluster_of(pods, missing=missing)
            cluster_report = observed.examined(NOW)
            seconds = _best(lambda seen=observed: seen.examined(NOW))  # type: ignore[misc]
            drawn = _best(lambda seen=cluster_report: show(drawing(seen), screen=_console()))  # type: ignore[misc]
            said = "yes" if missing else "no"
            sys.stdout.write(f"  {pods:>6} {said:>15} {seconds:>9.3f} {drawn:>9.3f}\n")
            if pods == 1_000 and seconds + drawn > BUDGET:
                sys.exit(f"status of 1,000 pods took {seconds + drawn:.2f} s, over {BUDGET:g} s")


def a_cluster_of(pods: int, *, missing: bool = False) -> Observed:
    """Return a RayCluster of so many workers in replicas of four hosts, perhaps without one."""
    scene = Scene(llama(replicas=pods // HOSTS))
    return (scene.without("llama-tpu-worker-1-3") if missing else scene).observed()


def _best(work: Callable[[], object]) -> float:
    """Return the seconds of the quickest of some turns."""
    times = []
    for _ in range(TURNS):
        started = perf_counter()
        work()
        times.append(perf_counter() - started)
    return min(times)


def _console() -> Console:
    return Console(file=io.StringIO(), width=200, force_terminal=False)


if __name__ == "__main__":
    main()
