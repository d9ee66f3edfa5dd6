"""The CPU time of all public entries for twice the input, at the limit of the API server: it shows
what C functions do, such as a search in a list, which the lines of the tests do not.

Prints the parts for which it is more than 2.3 times as much, and the largest times; then the
longest times of the event loop for an event of an object of 1.5 MB, or at the bound up to which it
is read whole, for each kind that is watched.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from heapq import nlargest
from typing import Any, cast

from tests.builders import NAMESPACE, Object, a_cluster, a_pod
from tests.growth.entries import Change, cases, repetition
from tests.growth.parts import repeated, type_part
from tests.harness.work import RATIO_MAX, seconds
from tests.lab.bench.reviews_over_https import say
from webhook.api import names
from webhook.api.objects import RayCluster
from webhook.cache import cluster_cache
from webhook.cache.cluster_cache import OTHERS, POD_GROUPS, PODS, RAYCLUSTERS, WORKLOADS
from webhook.cache.informer import decode_event
from webhook.cache.nodes import NodeLabels
from webhook.cache.quota_watches import NamespaceQuotas
from webhook.cache.serve_stores import PodStore, RayClusterStore, pods_in, rayclusters_in
from webhook.controller.group_index import GroupIndex
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_index import Membership
from webhook.kubeclient.client import Api
from webhook.kubeclient.wire import Codec, Stub
from webhook.objects.object_cache import ObjectCache

_LONGEST = 20
_REPORTS = ("examine", "show a report")
_REPORTED = 500
"""The scenes of reports take long to build."""
_NOISE_SECONDS = 0.004
_BELOW = 0.98
"""Of the bound: objects have other fields, too."""


Kind = tuple[str, Codec[Any], Callable[[Any], object]]


def kinds() -> Iterator[Kind]:
    """Yield the kinds that `serve` watches, then those of the controller and the dashboard, each
    with what handles an object.
    """
    api, index = cast("Api", None), ClusterIndex()
    quotas = [watch.resource for watch in NamespaceQuotas(api, [], index, Membership()).watches]
    yield "serve, pods", pods_in("").codec, PodStore(Membership()).put
    yield "serve, RayClusters", rayclusters_in("").codec, RayClusterStore(index).put
    yield "serve, nodes", NodeLabels(api, []).watch.resource.codec, id
    yield "serve, ResourceQuotas", quotas[0].codec, id
    yield "serve, LimitRanges", quotas[1].codec, id
    watched: list[cluster_cache.Kind[Any]] = [RAYCLUSTERS, PODS, *OTHERS, POD_GROUPS, WORKLOADS]
    for kind in watched:
        objects = ObjectCache()
        GroupIndex(objects)
        objects.begin()
        yield f"controller, {kind.plural}", kind.codec, partial(kind.table(objects).put, "u")


def _documents(codec: Codec[Any]) -> Iterator[tuple[str, Change, int]]:
    """Yield the name of each repeated part, objects with as many of them, and the limit."""
    worker, cluster = a_pod().of("c").worker("g").build(), a_cluster("c").group("g").build()
    document = cluster if issubclass(codec.kind, RayCluster) else worker
    document["metadata"] |= {"uid": "u", "resourceVersion": "5", "namespace": NAMESPACE}
    part = type_part(codec.kind)
    for path in repeated(part):
        yield repetition(document, part, path)
    if issubclass(codec.kind, RayCluster):
        yield "multi-slice TPU groups", partial(_slice_groups, document), 6000


def _slice_groups(document: Object, number: int) -> Object:
    groups = [
        a_group(f"{each:x}", template=a_slice_template(str(each // 2 + 2)))
        for each in range(number)
    ]
    return {**document, "spec": {**document["spec"], "workerGroupSpecs": groups}}


def a_group(name: str, template: Object) -> Object:
    """Return a worker group as the API server stores it, with its defaults."""
    numbers = {"replicas": 1, "minReplicas": 0, "maxReplicas": 2147483647, "numOfHosts": 1}
    return {"groupName": name, **numbers, "template": template}


def a_slice_template(slices: str) -> Object:
    """Return a template of TPUs for a job of so many slices."""
    env = [{"name": names.MEGASCALE_NUM_SLICES, "value": slices}]
    limits = {names.RESOURCE_TPU: "4"}
    return {"spec": {"containers": [{"name": "", "env": env, "resources": {"limits": limits}}]}}


def _handle(codec: Codec[Any], put: Callable[[Any], object], line: bytes) -> None:
    decoded = decode_event(codec, line).object
    if not isinstance(decoded, Stub):
        put(decoded)


def events() -> Iterator[tuple[float, str]]:
    """Yield the CPU time of an event, for each repeated part of each kind: of an object of 1.5 MB,
    and of one at the bound up to which it is read whole.
    """
    for kind_name, codec, put in kinds():
        for name, change, limit in _documents(codec):
            size = len(_line(change(limit)))
            for number in {limit, int(limit * min(1, codec.limit / size * _BELOW))}:
                line = _line(change(number))
                time = seconds(partial(_handle, codec, put, line), 3)
                yield time, f"{kind_name}: {number} {name}"


def _line(document: Object) -> bytes:
    event = {"type": "MODIFIED", "object": document}
    return json.dumps(event, separators=(",", ":")).encode()


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
