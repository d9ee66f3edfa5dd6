"""Shard groups and indices in user input."""

import pytest

from tests.harness.ray_objects import Built, a_cluster, a_job, found, found_in_update
from webhook.api import names

GROUP, INDEX = names.ANNOTATION_SHARD_GROUP, names.ANNOTATION_SHARD_INDEX
AT_INDEX = f"metadata.annotations[{INDEX}]"


def shard(group: str | None = "search", index: str | None = None) -> Built:
    cluster = a_cluster().group()
    for name, value in ((GROUP, group), (INDEX, index)):
        if value is not None:
            cluster.annotation(name, value)
    return cluster


def test_an_index_needs_a_group() -> None:
    without_effect = {("annotation-without-effect", AT_INDEX)}
    assert found(shard(None, "0")) == found(shard("", "0")) == without_effect


def test_an_index_that_would_be_copied_to_several_clusters_is_refused() -> None:
    job = a_job().annotation(GROUP, "search")
    assert found(job) == set()
    assert found(job.annotation(INDEX, "0")) == {("shard-index-copied", AT_INDEX)}


@pytest.mark.parametrize(("old", "new", "rules"), [
    (shard("search", "0"), shard("search", "1"), {("deny", "shard-index-changed", AT_INDEX)}),
    (shard("search", "0"), shard("search"), set()),
    (shard("search"), shard("search", "0"), set()),
    (shard("search", "x"), shard("search", "0"), set()),
    (shard("search", "0"), shard("ads", "1"), set()),
    (shard(None, "0"), shard("search", "1"), set()),
], ids=["changed", "dropped", "added", "corrected", "another group", "joined"])  # fmt: skip
def test_the_index_is_constant(old: Built, new: Built, rules: set[tuple[str, str, str]]) -> None:
    assert found_in_update(old, new) == rules


def test_an_index_that_was_wrong_before_does_not_block_an_update() -> None:
    assert found_in_update(shard("search", "x"), shard("search", "x").label("team", "a")) == {
        ("warn", "annotation-value-invalid", AT_INDEX)
    }
