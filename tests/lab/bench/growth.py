"""The CPU time of all public entries for twice the input, at the limit of the API server: it shows
what C functions do, such as a search in a list, which the lines of the tests do not.

Prints the parts for which it is more than 2.3 times as much, and the largest times; then the
longest times of the event loop for an event of an object of 1.5 MB, for each kind that is watched.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from heapq import nlargest
from typing import Any, cast

from tests.builders import NAMESPACE, a_cluster, a_pod
from tests.growth.entries import cases, repetition
from tests.growth.parts import repeated, type_part
from tests.harness.work import RATIO_MAX, seconds
from tests.lab.bench.reviews_over_https import say
from webhook.api.namespace_limits import LimitRange, ResourceQuota
from webhook.api.objects import Bare, RayCluster
from webhook.cache.cluster_cache import PODS, RAYCLUSTERS
from webhook.cache.informer import decode_event
from webhook.cache.nodes import NodeLabels
from webhook.cache.quota_watches import NamespaceQuotas
from webhook.cache.serve_stores import PodStore, RayClusterStore, pods_in, rayclusters_in
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_index import Membership
from webhook.groups.identity_labels import WorkerPod
from webhook.kubeclient.client import Api
from webhook.kubeclient.wire import Codec
from webhook.objects.live_objects import LiveCluster, LivePod

_LONGEST = 20
_REPORTS = ("examine", "show a report")
_REPORTED = 500
"""The scenes of reports take long to build."""
_NOISE_SECONDS = 0.004


def kinds() -> Iterator[tuple[str, type, Codec[Any], Callable[[Any], object]]]:
    """Yield the kinds that `serve` watches, then those of the controller that tenants write, each
    with what handles an object.
    """
    api, index = cast("Api", None), ClusterIndex()
    quotas = [watch.resource for watch in NamespaceQuotas(api, [], index, Membership()).watches]
    yield "serve, pods", WorkerPod, pods_in("").codec, PodStore(Membership()).put
    yield "serve, RayClusters", RayCluster, rayclusters_in("").codec, RayClusterStore(index).put
    yield "serve, nodes", Bare, NodeLabels(api, []).watch.resource.codec, id
    yield "serve, ResourceQuotas", ResourceQuota, quotas[0].codec, id
    yield "serve, LimitRanges", LimitRange, quotas[1].codec, id
    yield "controller, RayClusters", LiveCluster, RAYCLUSTERS.codec, id
    yield "controller, pods", LivePod, PODS.codec, id


def _handle(codec: Codec[Any], put: Callable[[Any], object], line: bytes) -> None:
    put(decode_event(codec, line).object)


def events() -> Iterator[tuple[float, str]]:
    """Yield the CPU time of an event, for each repeated part of each kind."""
    for kind_name, kind, codec, put in kinds():
        worker, cluster = a_pod().of("c").worker("g").build(), a_cluster("c").group("g").build()
        document = cluster if issubclass(kind, RayCluster) else worker
        document["metadata"] |= {"uid": "u", "resourceVersion": "5", "namespace": NAMESPACE}
        part = type_part(kind)
        for path in repeated(part):
            name, change, limit = repetition(document, part, path)
            line = json.dumps({"type": "MODIFIED", "object": change(limit)}).encode()
            yield seconds(partial(_handle, codec, put, line), 3), f"{kind_name}: {limit} {name}"


def main() -> None:
    """Measure and print."""
    say("the longest times of the event loop for an event of an object of 1.5 MB, in ms")
    for time, text in nlargest(_LONGEST, events()):
        say(f"{time * 1000:>8.2f}  {text}")
    say("CPU time of twice the input to that of the input, where it exceeds 2.3")
    times = []
    for case in cases():
        number = min(case.limit, _REPORTED) if case.entry in _REPORTS else case.limit
        half, whole = case.build(max(number // 2, 1)), case.build(number)
        before, after = seconds(half, 2), seconds(whole, 2)
        if after > max(RATIO_MAX * before, _NOISE_SECONDS):
            before, after = seconds(half), seconds(whole)
        if after > max(RATIO_MAX * before, _NOISE_SECONDS):
            say(f"{after / before:>6.2f} {after:>8.3f} s  {case.entry}: {number} {case.part}")
        times.append((after, f"{case.entry}: {number} {case.part}"))
    say("the largest times, in seconds")
    for time, text in nlargest(_LONGEST, times):
        say(f"{time:>8.3f}  {text}")


if __name__ == "__main__":
    main()
