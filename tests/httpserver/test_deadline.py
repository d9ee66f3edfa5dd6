"""A blocked review is answered with the reason before the API server times out."""

import asyncio
import json

import pytest

from tests.apiserver import object_review, pod_review
from tests.builders import Object, a_cluster, a_pod
from webhook.admission.pod_handler import PodHandler
from webhook.admission.reviewer import Mutation
from webhook.admission.shard_handler import ShardHandler
from webhook.api.review import NotNow
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_index import Membership
from webhook.groups.required_reads import Read
from webhook.httpserver import endpoint
from webhook.manifest.standalone import load_state
from webhook.reservation.reservations import standalone


class Silence:
    """An API server that never answers."""

    async def read(self, what: Read) -> None:
        del what
        await asyncio.Event().wait()


SHARD = a_cluster("c").annotated("admission.ray.io/shard-group", "s").group("g").build()
REVIEWS = {
    "Pod team/c-worker-": pod_review(a_pod().worker("g").of("c").build()),
    "RayCluster team/c": object_review(SHARD),
}


@pytest.mark.parametrize("subject", REVIEWS)
def test_a_review_that_cannot_be_decided_in_time_says_so_and_names_its_object(
    monkeypatch: pytest.MonkeyPatch, subject: str
) -> None:
    monkeypatch.setattr(endpoint, "REVIEW_SECONDS", 0.01)
    known, clusters = load_state(()), ClusterIndex()
    clusters.freshness = lambda *_: False  # a watch that is silent
    pods = PodHandler(clusters, known.identities)
    shards = ShardHandler(clusters, standalone(Membership(), clusters))
    mutation = Mutation(pods, Silence(), shards, in_time=endpoint.in_time)

    async def story(review: Object) -> str:
        with pytest.raises(NotNow, match="took more than ") as refused:
            await mutation.review(json.dumps(review).encode())
        return refused.value.subject

    assert asyncio.run(story(REVIEWS[subject])).startswith(subject)
