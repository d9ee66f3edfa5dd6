"""Memory of `serve` after many changing objects: reviews, watch events and the churn of
RayClusters, in one process, without a network.

Prints the resident memory after each tenth, and after three bursts of large objects. The memory at
the end is at most 10 % more than after the first tenth.
"""

import asyncio
import ctypes
import gc
import io
import itertools
import json
import os
import sys
from collections.abc import Iterator

import msgspec

from tests.builders import Object, a_cluster, a_pod
from tests.growth.containers import instances
from tests.growth.test_caches import SETTINGS
from tests.harness.apiserver import object_review, pod_review
from tests.harness.own_process import run_in_own_process
from tests.lab.bench.memory import memory_of
from tests.lab.bench.reviews_over_https import say
from webhook.admission.reviewer import Mutation, ObjectReviewer
from webhook.api import names
from webhook.api.objects import RayCluster
from webhook.app import serve
from webhook.cache.live import ClusterState
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_labels import WorkerPod

_REVIEWS = 200_000
_EVENTS = 100_000
_TENTHS = 10
_ALIVE = 100
"""RayClusters at a time."""
_GROWTH_MAX = 1.1


class Soaked:
    """A composition of `serve`, with the RayClusters that exist."""

    def __init__(self) -> None:
        self._process = serve.build(SETTINGS, io.BytesIO())
        (state,) = instances(ClusterState, self._process)
        (self.stores,) = state.stores.values()
        (self.mutation,) = instances(Mutation, self._process)
        (self.validation,) = instances(ObjectReviewer, self._process)
        for index in instances(ClusterIndex, self._process):
            index.freshness = None  # no watch is connected
        self._numbers = itertools.count()
        self.run = asyncio.Runner().run

    def churn(self) -> None:
        """Create a RayCluster, with pods, and delete the oldest ones."""
        number = next(self._numbers)
        self.stores.clusters.put(msgspec.convert(cluster(number), RayCluster))
        self.stores.clusters.remove(cluster(number - _ALIVE)["metadata"]["uid"])

    def event(self, number: int) -> None:
        """Deliver the creation of a pod, and the deletion of an older one."""
        pod = worker(number)
        pod["metadata"]["uid"] = f"pod-{number}"
        self.stores.pods.put(msgspec.json.decode(json.dumps(pod), type=WorkerPod))
        self.stores.pods.remove(f"pod-{number - 1000}")

    def review(self, number: int) -> None:
        """Review a pod that differs from all others; every hundredth time a RayCluster."""
        if number % 100 == 0:
            review = json.dumps(object_review(cluster(number))).encode()
            self.run(self.validation.review(review))
        self.run(
            self.mutation.review(json.dumps(pod_review(worker(number), dry_run=True)).encode())
        )


def cluster(number: int) -> Object:
    """Return a RayCluster that differs from all others."""
    built = a_cluster(f"c{number}").group("g", hosts=4, replicas=1000)
    built.annotated(
        names.ANNOTATION_IPPR, json.dumps({"groups": {f"g{number}": {"max-cpu": number}}})
    )
    return built.build()


def worker(number: int) -> Object:
    """Return a worker of one of the RayClusters that exist after its turn."""
    pod = a_pod().of(f"c{number // 100}").worker("g").gpu(8)
    pod.identity(number // 4 % 1000, number % 4, f"g-{number // 4 % 60000:05}")
    return pod.env("VALUE", f"{number // 50}" * 20).build()


def soak() -> list[float]:
    """Return the resident memory in MiB after each tenth."""
    soaked, sizes = Soaked(), []
    for tenth in range(_TENTHS):
        for number in range(tenth * _REVIEWS // _TENTHS, (tenth + 1) * _REVIEWS // _TENTHS):
            if number % 100 == 0:
                soaked.churn()
            soaked.review(number)
            if number % (_REVIEWS // _EVENTS) == 0:
                soaked.event(number)
        sizes.append(_resident())
    return sizes


def burst(name: str) -> tuple[float, float]:
    """Return the resident memory in MiB before and after a burst of large objects."""
    soaked = Soaked()
    soaked.churn()
    before = _resident()
    for body in _BURSTS[name]():
        validating = b'"kind": "RayCluster"' in body[:400]
        soaked.run((soaked.validation if validating else soaked.mutation).review(body))
    return before, _resident()


def _annotations() -> Iterator[bytes]:
    for number in range(64):
        text = json.dumps(
            {"groups": {f"group-{number}-{each}": {"max-cpu": "8"} for each in range(6500)}}
        )
        built = a_cluster("c").group("g").annotated(names.ANNOTATION_IPPR, text)
        yield json.dumps(object_review(built.build())).encode()


def _images() -> Iterator[bytes]:
    for number in range(170):
        document = a_cluster("c").group("g").build()
        (group,) = document["spec"]["workerGroupSpecs"]
        (container,) = group["template"]["spec"]["containers"]
        container["image"] = f"{number:08}" * (2_900_000 // 16)
        container["resources"] = {"limits": {"cpu": f"{number:08}" * (2_900_000 // 16)}}
        yield json.dumps(object_review(document)).encode()


def _pods() -> Iterator[bytes]:
    for number in range(4000):
        pod = a_pod().of("c0").worker("g").gpu(8).identity(number % 1000, 0, f"g-{number:05}")
        document = pod.env("TEXT", f"{number:08}" * (60_000 // 8)).build()
        yield json.dumps(pod_review(document, dry_run=True)).encode()


_BURSTS = {
    "64 reviews with ray.io/ippr of 250 KB": _annotations,
    "170 reviews with images and quantities of 2.9 MB": _images,
    "4,000 dry-run pods of 60 KB": _pods,
}


def _resident() -> float:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return memory_of(os.getpid())[0]


def main() -> None:
    """Measure and print."""
    for name in _BURSTS:
        before, after = run_in_own_process(burst, name)
        say(f"{name}: {before:.0f} MiB before, {after:.0f} MiB after")
    sizes = run_in_own_process(soak)
    say(f"{_REVIEWS} reviews, {_EVENTS} events, {_REVIEWS // 100} RayClusters; MiB each tenth:")
    say(" ".join(f"{size:.1f}" for size in sizes))
    if sizes[-1] > sizes[0] * _GROWTH_MAX:
        sys.exit("the memory has grown by more than 10 %")


if __name__ == "__main__":
    main()
