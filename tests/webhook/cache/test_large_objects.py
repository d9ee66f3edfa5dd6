"""RayClusters that are too large to be read: only an outline is decoded, whatever they contain."""

import json
from typing import Any

import pytest

from tests.builders import Object
from tests.harness.objects import a_raycluster
from tests.harness.work import lines
from webhook.api import names
from webhook.api.objects import RAYCLUSTER_BYTES_MAX, RayCluster
from webhook.cache.cluster_cache import RAYCLUSTERS
from webhook.cache.informer import decode_event
from webhook.cache.serve_stores import RayClusterStore, rayclusters_in
from webhook.groups.group_config import ClusterIndex, RayClusterConfig, facts_of
from webhook.kubeclient.wire import Codec

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
    _, (small, listed) = codec.page(json.dumps(page).encode())
    assert small.groups
    assert not small.unread_bytes
    for found in (_decoded(codec, line), listed):
        config = facts_of(found)
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
        return lines(lambda: facts_of(_decoded(codec, line)))

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
