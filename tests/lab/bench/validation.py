"""Validation of a spec of 100 worker groups: on creation, on update, and when the autoscaler scales
it; and the share of quotas in a namespace that has some.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter, process_time

from tests.harness.ray_objects import Json, a_cluster
from tests.webhook.validation.test_quotas import Namespaces, a_quota, a_range
from webhook.admission.ray_handler import RayHandler
from webhook.admission.reviewer import ObjectReviewer
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.ruleset import check, check_update

GROUPS = 100
BATCHES = 7


def main() -> None:
    """Measure and print, for 100 worker groups of 64 hosts and for one."""
    sys.stdout.write("\nvalidation: milliseconds (best of batches)\n")
    sys.stdout.write(
        f"  {'groups x hosts':>14} {'create':>8} {'update':>8} {'replicas only':>14} "
        f"{'replicas only, bytes to bytes':>30}\n"
    )
    for groups in (1, GROUPS):
        old = _cluster(groups)
        edited, scaled = _cluster(groups), _cluster(groups)
        edited["spec"]["workerGroupSpecs"][-1]["maxReplicas"] = 9
        scaled["spec"]["workerGroupSpecs"][-1]["replicas"] = 3
        review, reviewer = _review(old, scaled), ObjectReviewer(RayHandler())
        figures = [
            _milliseconds(partial(check, "RayCluster", old)),
            _milliseconds(partial(check_update, "RayCluster", old, edited)),
            _milliseconds(partial(check_update, "RayCluster", old, scaled)),
            _milliseconds(partial(_reviewed, reviewer, review), _loop_cost()),
        ]
        sys.stdout.write(
            f"  {f'{groups} x 64':>14} {figures[0]:>8.3f} {figures[1]:>8.3f} {figures[2]:>14.4f} "
            f"{figures[3]:>30.3f}\n"
        )
    _print_quotas()


def _print_quotas() -> None:
    """Print the CPU time with a quota and a LimitRange to that without, measured in turns."""
    hard = {"requests.google.com/tpu": "1M", "pods": "1M", "count/services": "9"}
    limits = Namespaces([a_quota(hard, {"pods": "5"}), a_range(default={"cpu": "1"})])
    every = [RuleSettings(), RuleSettings(namespaces=limits)]
    sys.stdout.write("\nvalidation with quotas: CPU time to that without\n")
    sys.stdout.write(f"  {'groups':>14} {'create':>8} {'update':>8}\n")
    for groups in (1, GROUPS, 10 * GROUPS):
        old, edited = _cluster(groups), _cluster(groups)
        edited["spec"]["workerGroupSpecs"][-1]["maxReplicas"] = 9
        turns = max(2, 2 * GROUPS // groups)
        calls = (
            [partial(check, "RayCluster", old, settings) for settings in every],
            [partial(check_update, "RayCluster", old, edited, settings) for settings in every],
        )
        created, updated = (_ratio(without, with_, turns) for without, with_ in calls)
        sys.stdout.write(f"  {groups:>14} {created:>8.2f} {updated:>8.2f}\n")


def _ratio(one: Callable[[], object], other: Callable[[], object], turns: int) -> float:
    """Return the CPU time of `other` to that of `one`, the best of each."""
    best = [float("inf")] * 2
    for _ in range(BATCHES):
        for index, call in enumerate((one, other)):
            started = process_time()
            for _ in range(turns):
                call()
            best[index] = min(best[index], process_time() - started)
    return best[1] / best[0]


def _cluster(groups: int) -> Json:
    cluster = a_cluster()
    for number in range(groups):
        cluster.group(f"tpu-{number}", hosts=64, replicas=2).tpu("16x16", 4)
        for variable in range(6):
            cluster.env(f"VARIABLE_{variable}", "value")
    # Through JSON, so that the two versions share nothing.
    value: Json = json.loads(json.dumps(cluster.build()))
    return value


def _review(old: Json, new: Json) -> bytes:
    kind = {"group": "ray.io", "version": "v1", "kind": "RayCluster"}
    resource = {"group": "ray.io", "version": "v1", "resource": "rayclusters"}
    request = {
        "uid": "u",
        "operation": "UPDATE",
        "kind": kind,
        "resource": resource,
        "object": new,
        "oldObject": old,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


def _reviewed(reviewer: ObjectReviewer, body: bytes) -> None:
    asyncio.run(reviewer.review(body))


def _milliseconds(call: Callable[[], object], overhead: float = 0.0) -> float:
    return min(_batch(call) for _ in range(BATCHES)) - overhead


def _batch(call: Callable[[], object]) -> float:
    turns = 20
    started = perf_counter()
    for _ in range(turns):
        call()
    return (perf_counter() - started) / turns * 1e3


def _loop_cost() -> float:
    """Return what starting an event loop costs, which a server does once."""

    async def nothing() -> None:
        pass

    return _milliseconds(lambda: asyncio.run(nothing()))


if __name__ == "__main__":
    main()
