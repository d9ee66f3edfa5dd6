"""What an identity costs a review, in function calls, which other load does not change."""

import asyncio
from cProfile import Profile
from itertools import islice

from tests.builders import Webhook
from tests.lab.bench.reviews import CLUSTER, Body, review_bodies
from webhook.admission.reviewer import Mutation

REVIEWS = 320


def calls(kind: Body) -> int:
    """Return the calls of reviews, standalone, after as many others."""
    mutation, profile = Mutation(Webhook(CLUSTER).handler), Profile()

    async def review(*, counted: bool) -> None:
        for body in islice(bodies, REVIEWS):
            if counted:
                profile.enable()
            outcome = await mutation.review(body)
            profile.disable()
            assert outcome.answer.patch

    bodies = review_bodies(kind)
    asyncio.run(review(counted=False))
    asyncio.run(review(counted=True))
    return sum(entry.callcount for entry in profile.getstats())


def test_a_pod_without_an_identity_costs_few_calls_more_than_one_that_carries_it() -> None:
    assert calls(Body.FRESH) < 2.5 * calls(Body.LABELLED)
