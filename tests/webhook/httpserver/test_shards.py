"""Shards over HTTPS, standalone: a RayCluster that received its index counts as created."""

import base64
import copy
import json
from collections.abc import Iterator

import jsonpatch
import pytest
import yaml

from tests.builders import a_cluster
from tests.harness.apiserver import ApiServer, Object, object_review
from tests.harness.server import serving
from webhook.api import names

GROUP, INDEX = names.ANNOTATION_SHARD_GROUP, names.ANNOTATION_SHARD_INDEX
THERE = a_cluster("there").group("g").annotated(GROUP, "search").annotated(INDEX, "1")


@pytest.fixture(name="client", scope="module")
def _client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A kube-apiserver, and a webhook that knows one RayCluster, which is shard 1."""
    folder = tmp_path_factory.mktemp("shards")
    state = folder / "state.yaml"
    state.write_text(yaml.safe_dump(THERE.build()))
    with serving(folder, [state]) as running, ApiServer(running.url, running.authority) as api:
        yield api


def index_of(client: ApiServer, cluster: Object, old: Object | None = None) -> str:
    response = client.review(object_review(cluster, old=old))
    patched = jsonpatch.apply_patch(
        copy.deepcopy(cluster), json.loads(base64.b64decode(response.get("patch", "W10=")))
    )
    index: str = patched["metadata"]["annotations"][INDEX]
    return index


def test_each_cluster_gets_its_own_index_and_keeps_it(client: ApiServer) -> None:
    clusters = [
        a_cluster(name).group("g").annotated(GROUP, "search").build() for name in ("a", "b", "a")
    ]
    assert [index_of(client, cluster) for cluster in clusters] == ["0", "2", "0"]
    old = a_cluster("a").group("g").annotated(GROUP, "search").annotated(INDEX, "0").build()
    assert index_of(client, clusters[0], old) == "0"


def test_an_index_that_is_taken_is_refused(client: ApiServer) -> None:
    taken = a_cluster("c").annotated(GROUP, "search").annotated(INDEX, "1").build()
    status = client.review(object_review(taken))["status"]
    assert (status["reason"], status["code"]) == ("Invalid", 422)
    assert "there has index 1" in status["message"]
