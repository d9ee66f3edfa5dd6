"""A blocked review is answered with the reason before the API server times out."""

import asyncio
import json

import pytest
from fastapi import Request

from tests.builders import Object, a_cluster, a_pod
from tests.harness.apiserver import object_review, pod_review
from webhook.admission.pod_handler import PodHandler
from webhook.admission.reviewer import REVIEW_SECONDS, Mutation
from webhook.admission.shard_handler import ShardHandler
from webhook.api.review import NotNow
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_index import Membership
from webhook.groups.required_reads import Read
from webhook.httpserver import review_routes
from webhook.manifest.standalone import load_state
from webhook.reservation.reservations import standalone


class Silence:
    """An API server that never answers."""

    async def read(self, what: Read) -> None:
        del what
        await asyncio.Event().wait()


SHARD = a_cluster("c").annotated("admission.ray.io/shard-group", "s").group("g").build()
REVIEWS = {
    "a worker": pod_review(a_pod().worker("g").of("c").build()),
    "a head": pod_review(a_pod().head().of("c").build()),
    "a worker of KubeRay 1.6": pod_review(a_pod().worker("g").of("c").identity(0, 0, "").build()),
    "a shard": object_review(SHARD),
}


@pytest.mark.parametrize("subject", REVIEWS)
def test_a_review_that_cannot_be_decided_in_time_says_so_and_names_its_object(subject: str) -> None:
    known, clusters = load_state(()), ClusterIndex()
    clusters.freshness = lambda *_: False  # a watch that is silent
    pods = PodHandler(clusters, known.identities)
    shards = ShardHandler(clusters, standalone(Membership(), clusters))
    mutation = Mutation(pods, Silence(), shards, in_time=review_routes.in_time)

    async def story(review: Object) -> str:
        with pytest.raises(NotNow, match="took more than ") as refused:
            await mutation.review(json.dumps(review).encode(), 0.01)
        return refused.value.subject

    review = REVIEWS[subject]
    kind = review["request"]["kind"]["kind"]
    assert asyncio.run(story(review)).startswith(f"{kind} team/c")


@pytest.mark.parametrize(("query", "seconds"), [
    (b"timeout=2s", 1.6), (b"dryRun=All&timeout=30s", 24.0), (b"", REVIEW_SECONDS),
    (b"timeout=1m", REVIEW_SECONDS), (b"timeout=-5s", REVIEW_SECONDS),
    (b"timeout=999s", REVIEW_SECONDS),
])  # fmt: skip
def test_the_time_of_a_review_is_below_the_timeout_sent(query: bytes, seconds: float) -> None:
    assert review_routes.review_seconds(
        Request({"type": "http", "query_string": query})
    ) == pytest.approx(seconds)
