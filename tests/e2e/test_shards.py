"""Shard indices in a real API server: reviewed, stored and refused objects."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.api import RAY_CLUSTERS, Api, ApiError, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.rays import scale, slices, wait_for_cache
from tests.e2e.waiting import until
from tests.e2e.webhook_process import Webhook
from webhook.api import names

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("webhook")]

GROUP, INDEX = names.ANNOTATION_SHARD_GROUP, names.ANNOTATION_SHARD_INDEX


def shard(name: str, **annotations: str) -> Json:
    cluster = slices(name, 0)
    cluster["metadata"]["annotations"] = {GROUP: annotations.get("group", "search")}
    if "index" in annotations:
        cluster["metadata"]["annotations"][INDEX] = annotations["index"]
    return cluster


def index_of(cluster: Json) -> str | None:
    index: str | None = (cluster["metadata"].get("annotations") or {}).get(INDEX)
    return index


def mutations(webhook: Webhook, namespace: str) -> list[Json]:
    return [
        line
        for line in webhook.admissions("RayCluster")
        if (line["namespace"], line["verdict"]) == (namespace, "patched")
    ]


def reviews(webhook: Webhook, namespace: str) -> list[tuple[str, str]]:
    lines = webhook.admissions("RayCluster")
    return [(line["name"], line["operation"]) for line in lines if line["namespace"] == namespace]


def test_clusters_get_indices_that_are_kept_given_back_and_never_shared(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("shards")

    created = [api.create(RAY_CLUSTERS, shard(name), namespace) for name in ("a", "b", "c")]
    assert [index_of(cluster) for cluster in created] == ["0", "1", "2"]

    api.delete(RAY_CLUSTERS, "b", namespace)
    until(lambda: len(api.list(RAY_CLUSTERS, namespace)) == 2, "b is gone")
    until(
        lambda: index_of(api.create(RAY_CLUSTERS, shard("probe"), namespace, dryRun="All")) == "1",
        "the watch has told that b is gone",
    )
    assert index_of(api.create(RAY_CLUSTERS, shard("d"), namespace)) == "1"

    with pytest.raises(ApiError, match="has index 1 of shard group search") as refusal:
        api.create(RAY_CLUSTERS, shard("e", index="1"), namespace)
    assert refusal.value.status["reason"] == "Invalid"
    with pytest.raises(ApiError, match="is not a shard index"):
        api.create(RAY_CLUSTERS, shard("e", index="one"), namespace)
    until(
        lambda: len(mutations(webhook, namespace)) == 4, "the log has a patch for each of the four"
    )


def test_clusters_that_are_created_at_once_get_different_indices(
    control_plane: ControlPlane,
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("shards-at-once")

    def create(number: int) -> str | None:
        cluster = shard(f"c{number}")
        if number % 2:
            cluster["metadata"] |= {"generateName": "generated-", "name": ""}
        return index_of(api.create(RAY_CLUSTERS, cluster, namespace))

    with ThreadPoolExecutor(12) as pool:
        found = sorted(int(index or -1) for index in pool.map(create, range(24)))
    assert found == list(range(24))


def test_the_api_server_asks_only_about_clusters_of_a_shard_group(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("shards-asked")

    bare, other = slices("bare", 0), slices("other", 0)
    bare["metadata"].pop("annotations", None)
    other["metadata"]["annotations"] = {"team": "search"}
    for cluster in (bare, other, shard("in")):
        stored = api.create(RAY_CLUSTERS, cluster, namespace)
    changes: tuple[tuple[Json, str | None, int], ...] = (
        ({"labels": {"team": "a"}}, "0", 1),
        ({"annotations": {INDEX: None}}, "0", 2),  # it is put back
        ({"annotations": {GROUP: "ads"}}, "0", 2),
        ({"annotations": {GROUP: None}}, "0", 2),
        ({"annotations": {INDEX: None}}, None, 1),
        ({"annotations": {GROUP: "search"}}, "0", 2),
    )
    """Each change, the index afterwards, and its reviews: by the validating webhook, or by both."""
    for change, index, _ in changes:
        wait_for_cache(api, RAY_CLUSTERS, stored)
        stored = api.patch(RAY_CLUSTERS, "in", {"metadata": change}, namespace)
        assert index_of(stored) == index
    wait_for_cache(api, RAY_CLUSTERS, stored)
    with pytest.raises(ApiError, match="immutable"):
        api.patch(RAY_CLUSTERS, "in", {"metadata": {"annotations": {INDEX: "7"}}}, namespace)
    api.create(RAY_CLUSTERS, slices("last", 0), namespace)

    until(
        lambda: reviews(webhook, namespace)[-1:] == [("last", "CREATE")],
        "the log has the last review",
    )
    assert Counter(reviews(webhook, namespace)) == {
        ("bare", "CREATE"): 1,  # by the validating webhook alone
        ("other", "CREATE"): 1,
        ("in", "CREATE"): 2,
        ("in", "UPDATE"): sum(count for *_, count in changes) + 1,
        ("last", "CREATE"): 1,
    }


def test_without_the_webhook_only_clusters_that_lack_their_index_wait_for_it(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("shards-away")
    api.create(RAY_CLUSTERS, shard("settled"), namespace)
    webhook.stop()
    try:
        api.create(RAY_CLUSTERS, slices("bare", 0), namespace)
        assert refused(api, shard("in"), namespace) == "shards.admission.ray.io"
        scale(api, "settled", namespace, 1)
    finally:
        webhook.start()


def refused(api: Api, cluster: Json, namespace: str) -> str:
    with pytest.raises(ApiError) as refusal:
        api.create(RAY_CLUSTERS, cluster, namespace)
    return str(refusal.value).split('failed calling webhook "')[1].split('"')[0]
