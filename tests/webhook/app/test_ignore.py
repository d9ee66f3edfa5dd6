"""`ignore.rayclusters`: whether a label may exempt a RayCluster, in every process."""

import json
from collections.abc import Iterator

import pytest

from tests.builders import Object, a_cluster, a_pod, cluster_config
from tests.harness.apiserver import ApiServer, object_review, pod_review
from tests.harness.server import serving
from webhook.api import names
from webhook.groups.group_config import ClusterIndex

FLAGS = ["--ignore.rayclusters", "--ignore.rayclusters=false"]
ANNOTATIONS = {names.ANNOTATION_SHARD_GROUP: "search"}


def a_labelled_cluster() -> Object:
    """Return a RayCluster that asks to be left alone, and that no rule would let pass."""
    cluster = a_cluster("c").group("g", hosts=2).labelled(names.LABEL_IGNORE, "true")
    for name, value in ANNOTATIONS.items():
        cluster = cluster.annotated(name, value)
    document = cluster.build()
    document["spec"]["workerGroupSpecs"].append(document["spec"]["workerGroupSpecs"][0])
    return document


@pytest.fixture(name="asked", scope="module", params=FLAGS)
def _asked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[bool, ApiServer]]:
    folder = tmp_path_factory.mktemp("ignore")
    state = folder / "state.json"
    state.write_text(json.dumps(a_labelled_cluster()))
    with (
        serving(folder, [state], request.param) as running,
        ApiServer(running.url, running.authority) as api,
    ):
        yield request.param == FLAGS[0], api


def test_its_pods_get_their_identities_unless_it_may_leave(asked: tuple[bool, ApiServer]) -> None:
    leaves, api = asked
    response = api.review(pod_review(a_pod().of("c").worker("g").build()))
    assert ("patch" not in response) is leaves


def test_it_is_checked_by_the_rules_unless_it_may_leave(asked: tuple[bool, ApiServer]) -> None:
    leaves, api = asked
    assert api.review(object_review(a_labelled_cluster()), "/validate")["allowed"] is leaves


def test_it_gets_its_shard_index_unless_it_may_leave(asked: tuple[bool, ApiServer]) -> None:
    leaves, api = asked
    assert ("patch" not in api.review(object_review(a_labelled_cluster()))) is leaves


def test_whose_label_has_no_effect_is_reported(asked: tuple[bool, ApiServer]) -> None:
    leaves, api = asked
    cluster = a_cluster("d").group("g").labelled(names.LABEL_IGNORE, "true").build()
    warnings = api.review(object_review(cluster), "/validate").get("warnings", [])
    assert any("ignore.rayclusters is off" in each for each in warnings) is not leaves


def test_the_index_that_the_controller_reads_knows_it_as_one_like_all_others() -> None:
    index = ClusterIndex(ignoring=False)
    index.put(cluster_config(a_cluster("c").labelled(names.LABEL_IGNORE, "true")))
    (known,) = index
    assert not known.ignored
