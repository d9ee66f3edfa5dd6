"""Objects that are too large to be read, of which only an outline is decoded, whatever they have,
and lists of many objects, of which a part is decoded at a time.
"""

import asyncio
import json
from operator import attrgetter
from typing import Any, cast

import pytest

from tests.builders import Object, a_pod, items_of, uid_of
from tests.harness.objects import a_raycluster
from tests.harness.work import lines
from webhook.api import names
from webhook.api.objects import OBJECT_BYTES_MAX, RAYCLUSTER_BYTES_MAX, Bare, RayCluster
from webhook.cache.cluster_cache import OTHERS, POD_GROUPS, PODS, RAYCLUSTERS, WORKLOADS, Kind
from webhook.cache.informer import decode_event
from webhook.cache.serve_stores import PodStore, RayClusterStore, pods_in, rayclusters_in
from webhook.groups.group_config import ClusterIndex, RayClusterConfig, read_cluster_config
from webhook.groups.identity import HostIdentity
from webhook.groups.identity_index import Membership
from webhook.groups.identity_labels import WORKER_POD_BYTES_MAX
from webhook.kubeclient import wire
from webhook.kubeclient.client import Api, Query, decode_response
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.wire import PAGE_BYTES, PORTION_BYTES, Codec, Stub, pages, read_list
from webhook.objects.live_objects import LiveService
from webhook.objects.object_cache import owner_of

AnyCodec = Codec[Any]
CODECS: list[AnyCodec] = [rayclusters_in("default").codec, RAYCLUSTERS.codec]
_CONTAINER = {"name": "a", "resources": {"limits": {"google.com/tpu": "0"}}}


def _raycluster(groups: int, containers: int = 1) -> Object:
    template = {"spec": {"containers": [_CONTAINER] * containers}}
    found = a_raycluster()
    found["spec"]["workerGroupSpecs"] = [
        {"groupName": f"g{number}", "template": template} for number in range(groups)
    ]
    found["metadata"]["resourceVersion"] = "7"
    found["metadata"]["labels"] = {names.LABEL_IGNORE: "true", "other": "x"}
    found["metadata"]["annotations"] = {
        names.ANNOTATION_SHARD_GROUP: "s",
        names.ANNOTATION_SHARD_INDEX: "3",
        names.ANNOTATION_IPPR: "{",
    }
    return found


LARGE = [_raycluster(groups=12_000), _raycluster(groups=1, containers=20_000)]


def _decoded(codec: AnyCodec, line: bytes) -> RayCluster:
    found = decode_event(codec, line).object
    assert isinstance(found, RayCluster)
    return found


def _line(document: Object) -> bytes:
    return json.dumps({"type": "MODIFIED", "object": document}).encode()


@pytest.mark.parametrize("codec", CODECS, ids=["serve", "controller"])
@pytest.mark.parametrize("document", LARGE, ids=["groups", "containers"])
def test_a_large_raycluster_is_read_without_its_groups(codec: AnyCodec, document: Object) -> None:
    line = _line(document)
    assert len(line) > RAYCLUSTER_BYTES_MAX
    page = {"metadata": {"resourceVersion": "5"}, "items": [a_raycluster(), document]}
    small, listed = items_of(codec, page)
    assert small.groups
    assert not small.unread_bytes
    for found in (_decoded(codec, line), listed):
        config = read_cluster_config(found)
        assert config.groups == {}
        assert config.unread_bytes > RAYCLUSTER_BYTES_MAX
        assert (config.uid, config.name) == (document["metadata"]["uid"], small.metadata.name)
        assert found.metadata.resource_version == document["metadata"]["resourceVersion"]
        assert config.ignored  # its exemption and its shard index count
        assert (config.shard_group, config.shard_index) == ("s", "3")


@pytest.mark.parametrize("codec", CODECS, ids=["serve", "controller"])
def test_the_work_for_a_large_raycluster_does_not_depend_on_its_groups(codec: AnyCodec) -> None:
    def work(document: Object) -> int:
        line = _line(document)
        return lines(lambda: read_cluster_config(_decoded(codec, line)))

    assert work(_raycluster(groups=12_000)) == work(_raycluster(groups=24_000))


def test_a_raycluster_that_becomes_large_replaces_its_previous_configuration() -> None:
    index = ClusterIndex()
    store, codec = RayClusterStore(index), CODECS[0]

    def put(document: Object) -> RayClusterConfig | None:
        store.put(_decoded(codec, _line(document)))
        return index.get("default", document["metadata"]["name"])

    before, large, after = (put(_raycluster(number)) for number in (1, 12_000, 2))
    found = [(len(each.groups), each.unread_bytes > 0) for each in (before, large, after) if each]
    assert found == [(1, False), (0, True), (2, False)]


def _of_size(size: int) -> Object:
    document = _raycluster(1)
    document["metadata"]["annotations"]["x"] = ""
    missing = size - len(_compact(document))
    document["metadata"]["annotations"]["x"] = "x" * missing
    return document


KINDS = [pods_in(""), rayclusters_in(""), RAYCLUSTERS, PODS, POD_GROUPS, WORKLOADS, *OTHERS]


@pytest.mark.parametrize("kind", KINDS, ids=attrgetter("plural"))
def test_managed_fields_of_any_depth_do_not_end_a_list_or_a_watch(kind: Kind[Any]) -> None:
    # As the API server stores them for anyone who may create the object.
    entry = {"manager": 'a]"managedFields":[', "fieldsV1": {}}
    meta = {"name": "a", "uid": "u", "resourceVersion": "5", "annotations": {"a": '"]\\'}}
    document = json.dumps({"metadata": {**meta, "managedFields": [entry, entry]}})
    deep = document.replace("{}", '{"f:a":' * 9990 + "{}" + "}" * 9990).encode()
    decoded = decode_event(kind.codec, b'{"type":"ADDED","object":' + deep + b"}").object
    assert (decoded.metadata.uid, decoded.metadata.resource_version) == ("u", "5")
    assert decode_response(deep, Bare).metadata.annotations == meta["annotations"]
    garbled = document.replace("{}", '{"f:x":{}}').encode().replace(b"f:x", b"f:\xff")
    assert decode_response(garbled, dict[str, Any])["metadata"]["uid"] == "u"
    page = b'{"metadata":{},"items":[' + b",".join([deep, document.encode(), deep]) + b"]}"
    ((_, items),) = kind.codec.portions(page)
    assert [item.metadata.uid for item in items] == ["u", "u", "u"]


def _compact(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
@pytest.mark.parametrize("excess", [0, 1])
def test_the_bound_is_the_same_in_a_list_and_in_a_watch(kind: str, excess: int) -> None:
    document, codec = _of_size(RAYCLUSTER_BYTES_MAX + excess), CODECS[0]
    watched = _decoded(codec, _compact({"type": kind, "object": document}))
    page = _compact({"metadata": {}, "items": [document]})
    [(_, [listed])] = codec.portions(page)
    assert watched == listed
    assert watched.unread_bytes == (RAYCLUSTER_BYTES_MAX + excess) * excess


def _large_pod(part: str) -> Object:
    pod = a_pod().of("c").worker("g").identity(1, 2, "g-abcde").build()
    meta, number = pod["metadata"], WORKER_POD_BYTES_MAX // 4
    meta |= {"uid": "u", "resourceVersion": "7", "namespace": "default"}
    if part == "labels":
        meta["labels"] |= {f"k{each}": "x" for each in range(number)}
    elif part == "owners":
        meta["ownerReferences"] += [{"name": "o", "uid": "o"} for _ in range(number)]
    else:
        pod["spec"]["args"] = ["x"] * number
    ready = [{"type": "Ready", "status": "True"}]
    return {**pod, "status": {"conditions": [{"type": "x"}] * 100 + ready}}


@pytest.mark.parametrize("part", ["labels", "owners", "spec"])
def test_a_large_worker_pod_keeps_its_identity(part: str) -> None:
    members, document = Membership(), _large_pod(part)
    codec = pods_in("").codec
    line = _line(document)
    assert len(line) > WORKER_POD_BYTES_MAX
    pod: Any = decode_event(codec, line).object
    assert len(pod.metadata.labels) < 10
    assert len(pod.metadata.owner_references) == 1
    PodStore(members).put(pod)
    [(_, member)] = members.items()
    assert member.identity == HostIdentity(1, 2, "g-abcde")
    assert member.ready


@pytest.mark.parametrize("part", ["labels", "owners", "spec"])
def test_the_controller_reads_where_a_large_pod_is(part: str) -> None:
    document = _large_pod(part)
    document["spec"] |= {"nodeName": "n", "schedulingGroup": {"podGroupName": "p"}}
    document["status"] |= {"phase": "Running"}
    document["metadata"]["name"] = "w"
    document["metadata"]["annotations"] = {names.ANNOTATION_IDENTITY: names.IDENTITY_ASSIGNED}
    pod: Any = decode_event(PODS.codec, _line(document)).object
    assert pod.unread_bytes > WORKER_POD_BYTES_MAX
    assert (pod.name, pod.spec.node_name, pod.pod_group) == ("w", "n", "p")
    assert (pod.status.phase, pod.ready, owner_of(pod)) == ("Running", True, uid_of("c"))
    assert pod.labels[names.LABEL_NODE_TYPE] == names.NODE_TYPE_WORKER
    assert pod.annotations == document["metadata"]["annotations"]
    assert not pod.spec.containers


def _stored(codec: AnyCodec, document: Object) -> object:
    """Return an object that the controller receives; None if its previous state is kept."""
    found = decode_event(codec, _line(document)).object
    return None if isinstance(found, Stub) else found


@pytest.mark.parametrize("kind", [PODS, *OTHERS, POD_GROUPS, WORKLOADS], ids=attrgetter("plural"))
def test_the_labels_and_annotations_of_a_large_object_are_not_decoded(kind: Kind[Any]) -> None:
    meta = {"name": "a", "namespace": "d", "uid": "u", "resourceVersion": "7"}
    texts = {f"k{number}": "x" for number in range(30_000)}
    for field in ("labels", "annotations"):
        found: Any = _stored(kind.codec, {"metadata": {**meta, field: texts}})
        if found is not None:
            assert (found.metadata.name, found.metadata.uid) == ("a", "u")
            assert not getattr(found.metadata, field)


def test_a_large_rayservice_is_read_without_its_applications() -> None:
    [codec] = [kind.codec for kind in OTHERS if kind.plural == "rayservices"]
    serve = {"rayClusterName": "c", "applicationStatuses": {"a": {"status": "DEPLOYING"}}}
    document = {"metadata": {"name": "a"}, "status": {"activeServiceStatus": serve}}
    large = document | {"spec": {"serveConfigV2": "x" * OBJECT_BYTES_MAX}}
    whole, outline = (cast("LiveService", _stored(codec, each)) for each in (document, large))
    assert whole.status.active_service_status.application_statuses
    status = outline.status.active_service_status
    assert (status.ray_cluster_name, status.application_statuses) == ("c", None)
    assert outline.unread_bytes > OBJECT_BYTES_MAX


class Pages:
    """An API server with a list of objects; `asked` has the numbers of objects of its pages, and
    `pause` is the time before each in seconds.
    """

    def __init__(self, items: list[Object]) -> None:
        self.items, self.asked = items, list[int]()
        self.timeout = asyncio.timeout
        self.pause = 0.0

    async def get(self, _path: str, query: Query, *, bytes_max: int, **_: object) -> bytes:
        await asyncio.sleep(self.pause)
        asked = dict(query)
        start, number = int(asked.get("continue", 0)), int(asked["limit"])
        self.asked.append(number)
        end = start + number
        meta = {"resourceVersion": "9", "continue": str(end) if end < len(self.items) else ""}
        body = _compact({"metadata": meta, "items": self.items[start:end]})
        if len(body) > bytes_max:
            raise ApiError("large", "it is larger")
        return body


def _api(items: list[Object]) -> tuple[Api, Pages]:
    server = Pages(items)
    return cast("Api", server), server


async def test_a_page_of_many_rayclusters_is_decoded_in_portions_between_other_tasks() -> None:
    size = RAYCLUSTER_BYTES_MAX // 3
    api, server = _api([_of_size(size) for _ in range(100)])
    turns, portions = 0, 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async for meta, items in pages(api, rayclusters_in(""), 5.0):
        portions += 1
        assert meta.portion_bytes < PORTION_BYTES + size
        assert len(items) * size < PORTION_BYTES + size
    task.cancel()
    assert portions == 100
    assert turns >= portions - 1
    assert server.asked[0] * size > PAGE_BYTES >= server.asked[-1] * size
    assert server.asked[:4] == [100, 50, 25, 12]


async def test_one_object_may_be_larger_than_a_page_of_several() -> None:
    api, server = _api([_of_size(PAGE_BYTES + 1000), *[_of_size(500)] * 1000])
    found, _ = await read_list(api, rayclusters_in(""), 50.0)
    assert [each.unread_bytes > 0 for each in found] == [True, *[False] * 1000]
    assert len(server.asked) < 30


async def test_a_list_that_is_returned_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LIST_BYTES_MAX", 1 << 20)
    for number, large in ((9, False), (11, True)):
        api, _ = _api([_of_size(100_000) for _ in range(number)])
        reading = read_list(api, rayclusters_in(""), 5.0)
        if large:
            with pytest.raises(ApiError, match="more than 1 MiB"):
                await reading
        else:
            assert len((await reading)[0]) == number


async def test_a_list_of_slow_pages_ends_with_its_deadline() -> None:
    api, server = _api([_of_size(2000) for _ in range(300)])

    server.pause = 0.03
    with pytest.raises(ApiError, match="not complete after"):
        await read_list(api, rayclusters_in(""), 0.05)
