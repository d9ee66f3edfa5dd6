"""Memory per watched object stays within a budget for each kind."""

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from msgspec import convert, structs

from tests.builders import items_of
from tests.harness.fake_api import Object
from tests.harness.scenes import NOW, Observed, Scene, llama
from tests.harness.work import run_in_own_process
from tests.lab.bench.reviews import managed
from webhook.api import names
from webhook.api.objects import ObjectMeta
from webhook.cache import serve_stores
from webhook.cache.cluster_cache import PODS
from webhook.diagnostics.examiner import Examiner
from webhook.groups.identity_index import Membership
from webhook.kubeclient.wire import Codec
from webhook.objects.live_objects import MESSAGE_MAX, LiveEvent, LiveNode, LivePod
from webhook.objects.object_cache import ObjectCache
from webhook.objects.transforms import PodParts

NODES = Codec(LiveNode)
COUNT = 1000
PAGE = 250
KIB = 1024
CONDITIONS = (
    "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled",
)  # fmt: skip
HOSTS = 4


def hosts() -> Iterator[Object]:
    """Yield worker pods as an API server has them, 2 containers with 25 variables each."""
    template = json.dumps(Scene().pods["llama-tpu-worker-0-0"])
    for number in range(COUNT):
        replica, host = divmod(number, HOSTS)
        text = template.replace("tpu-s6kpg", f"tpu-{replica:05}")
        text = text.replace("tpu-0-0", f"tpu-0-{host}")
        pod = json.loads(text.replace('ID", "value": "0"', f'ID", "value": "{host}"'))
        pod["metadata"] |= metadata("llama-tpu-worker", number)
        pod["metadata"]["annotations"] = {names.ANNOTATION_HOLDER: f"{number:012x}"}
        since = f"2024-11-24T10:{number % 60:02}:00Z"
        condition = {"status": "True", "lastTransitionTime": since}
        pod["status"]["conditions"] = [condition | {"type": kind} for kind in CONDITIONS]
        yield pod


def nodes() -> Iterator[Object]:
    """Yield nodes with 30 labels and an annotation of 1 KiB."""
    for number in range(COUNT):
        labels = {f"cloud.google.com/label-{each}": f"value-{each}" for each in range(28)}
        own = {"kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": "a"}
        meta = {"labels": labels | own, "annotations": {"node.alpha/volumes": f"{number:1024}"}}
        yield {"metadata": meta | metadata("node", number)}


def metadata(prefix: str, number: int) -> Object:
    """Return metadata that no other object has, and those of field managers."""
    return {
        "name": f"{prefix}-{number:05}", "uid": f"01234567-89ab-cdef-0000-{number:012}",
        "resourceVersion": f"{number + 1}", "managedFields": [managed()]}  # fmt: skip


def kept(codec: Codec[Any], objects: Iterator[Object], put: Callable[[Any], None]) -> float:
    """Return how much memory objects take that come in pages, in KiB each."""
    every = list(objects)
    pages = [
        {"metadata": {"resourceVersion": "9"}, "items": every[start : start + PAGE]}
        for start in range(0, COUNT, PAGE)
    ]
    gc.collect()
    tracemalloc.start()
    try:
        for page in pages:
            for item in items_of(codec, page):
                put(item)
            item = None
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / COUNT / KIB
    finally:
        tracemalloc.stop()


def pods_of_the_dashboard() -> tuple[float, int]:
    """Return KiB a pod and the number of pods of the controller and the dashboard."""
    pods = ObjectCache().pods
    return kept(PODS.codec, hosts(), lambda pod: pods.put(pod.metadata.uid, pod)), len(pods.all)


def nodes_of_the_dashboard() -> tuple[float, int]:
    every = ObjectCache().nodes
    return kept(NODES, nodes(), lambda node: every.put(node.metadata.uid, node)), len(every.all)


def pods_of_serve() -> tuple[float, int]:
    members = Membership()
    return kept(serve_stores.CODEC, hosts(), serve_stores.PodStore(members).put), len(members)


def hostile_event(number: int, length: int = 1) -> LiveEvent:
    """Return an event as anyone who works in a namespace may create it."""
    text = f"{number:08}" * length
    meta = {"name": f"e{number}", "namespace": "team", "uid": f"e{number}"}
    about = {"kind": "Pod", "name": text, "uid": text}
    event = {"metadata": {**meta, "annotations": {"a": text}}, "involvedObject": about}
    return msgspec.convert(event | {"reason": "Unhealthy", "message": text}, LiveEvent)


def events_of_the_controller() -> tuple[float, int]:
    """Return KiB an event and the number of events, of long texts, in the controller."""
    events = ObjectCache().events
    gc.collect()
    tracemalloc.start()
    for number in range(COUNT):
        events.put(f"e{number}", hostile_event(number, 5000))
    return tracemalloc.get_traced_memory()[0] / COUNT / KIB, len(events.all)


@pytest.mark.parametrize(("measured", "most"), [
    (pods_of_the_dashboard, 4), (nodes_of_the_dashboard, 2), (pods_of_serve, 0.46),
    (events_of_the_controller, 3),
])  # fmt: skip
def test_an_object_takes_few_bytes(measured: Callable[[], tuple[float, int]], most: float) -> None:
    size, count = run_in_own_process(measured)
    assert size < most
    assert count == COUNT


def traversed_of_a_report() -> int:
    """Return how many more objects a full collection traverses after an examination."""
    examiner = Examiner(ObjectCache())
    before = tracked()
    llama_of(COUNT).load(examiner.object_cache)
    examiner.catch_up(NOW)
    assert len(examiner.clusters["uid-of-llama"].groups[0].every_host) == COUNT
    return tracked() - before


def test_the_garbage_collector_has_nothing_to_traverse_in_what_is_kept_and_reported() -> None:
    assert run_in_own_process(traversed_of_a_report) < COUNT / 2


def llama_of(pods: int) -> Observed:
    """Return a RayCluster of so many workers, without affinity, which is shared in a replica."""
    scene = Scene(llama(replicas=pods // HOSTS))
    for pod in scene.pods.values():
        pod["spec"].pop("affinity", None)
    return scene.observed()


def tracked() -> int:
    """Return the number of objects that a full collection traverses."""
    gc.collect()
    return len(gc.get_objects())


def test_a_node_of_which_only_annotations_and_heartbeats_change_has_not_changed() -> None:
    object_cache = ObjectCache()
    scene = Scene()
    for pod in scene.observed().pods:
        object_cache.pods.put(pod.metadata.uid or "", pod)
    object_cache.begin()
    for version, text in enumerate(("a", "b")):
        meta = {**scene.nodes[0]["metadata"], "uid": "u", "resourceVersion": f"{version}"}
        beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"{version}"}
        node = {"status": {"conditions": [beat, {"type": text}]}}
        listed = node | {"metadata": meta | {"annotations": {"a": text}}}
        page = {"metadata": {}, "items": [listed]}
        object_cache.nodes.put("u", items_of(NODES, page)[0])
        assert object_cache.take_changed() == ({"uid-of-llama"} if version == 0 else set())


@pytest.mark.parametrize("scene", [Scene(), Scene().changed("llama-tpu-worker-0-0", status={})])
def test_what_is_kept_of_a_pod_is_equal_to_it(scene: Scene) -> None:
    object_cache = ObjectCache()
    for pod in scene.pods.values():
        given = items_of(PODS.codec, {"metadata": {}, "items": [pod]})[0]
        object_cache.pods.put(given.metadata.uid or "", given)
        assert isinstance(given, LivePod)
        assert object_cache.pods.get(pod["metadata"]["uid"]) == given


def test_a_namespace_has_a_share_of_the_events_that_are_stored() -> None:
    events = ObjectCache().events
    for number in range(12_000):
        events.put(f"e{number}", hostile_event(number))
    meta = ObjectMeta(name="o", namespace="other", uid="o")
    events.put("o", structs.replace(hostile_event(0, 32), metadata=meta))
    assert len(events.all) == 10_001
    assert {len(each.involved_object.name) for each in events.all} == {8, 253}
    events.remove("e0")
    events.put("e11999", hostile_event(11_999))
    assert events.get("e11999") is not None


def test_the_end_of_a_long_termination_message_is_stored() -> None:
    end = {"exitCode": 1, "message": "a line\n" * 1000 + "the last line"}
    statuses = [
        {"name": "a", "state": {"terminated": end}, "lastState": {"terminated": end}},
        {"name": "b", "state": {"running": {}}},
    ]
    pod = convert({"metadata": {"name": "p"}, "status": {"containerStatuses": statuses}}, LivePod)
    status, other = PodParts().compact_pod(pod).status.container_statuses or ()
    for stored in (status.state.terminated, status.last_end):
        assert stored is not None
        assert (stored.exit_code, len(stored.message)) == (1, MESSAGE_MAX)
        assert stored.message.endswith("a line the last line")
    assert other.state.running is not None
