"""`ignore.rayclusters`: whether a label may exempt a RayCluster, in every process."""

import json
from pathlib import Path

import pytest

from tests.builders import a_cluster, a_pod, cluster_config
from tests.harness.apiserver import ApiServer, object_review, pod_review
from tests.harness.server import serving
from webhook.api import names
from webhook.groups.group_config import ClusterIndex


@pytest.mark.parametrize(
    ("flag", "leaves"), [("--ignore.rayclusters", True), ("--ignore.rayclusters=false", False)]
)
def test_a_label_exempts_a_raycluster_where_it_may(tmp_path: Path, flag: str, leaves: bool) -> None:
    built = a_cluster("c").group("g", hosts=2).group("g", hosts=2).opting(shard_group="search")
    cluster = built.label(names.LABEL_IGNORE, "true").build()  # no rule would let it pass
    other = a_cluster("d").group("g").label(names.LABEL_IGNORE, "true").build()
    state = tmp_path / "state.json"
    state.write_text(json.dumps(cluster))
    with (
        serving(tmp_path, [state], flag, "--log.admissions=denied") as running,
        ApiServer(running.url, running.authority) as api,
    ):
        pod = api.review(pod_review(a_pod().of("c").worker("g").build()))
        assert ("patch" not in pod) is leaves, "its identity"
        assert ("patch" not in api.review(object_review(cluster))) is leaves, "its shard index"
        assert api.review(object_review(cluster), "/validate")["allowed"] is leaves
        warnings = api.review(object_review(other), "/validate").get("warnings", [])
        assert any("ignore.rayclusters is off" in text for text in warnings) is not leaves
    lines = map(json.loads, running.log.read_text().splitlines())
    denied = [line["name"] for line in lines if line["event"] == "admission"]
    assert denied == ([] if leaves else ["c"]), "with log.admissions"


def test_the_index_that_the_controller_reads_knows_it_as_one_like_all_others() -> None:
    index = ClusterIndex(ignoring=False)
    index.put(cluster_config(a_cluster("c").label(names.LABEL_IGNORE, "true")))
    (known,) = index
    assert not known.ignored
