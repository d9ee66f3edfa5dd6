"""Fuzzed reviews: any change gives a verdict or a 4xx, independent of earlier requests."""

import asyncio
import copy
import json
import random
import uuid

import httpx
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.builders import Object
from tests.lab.hostile.bodies import MUTATE, Body, Service, applied, bodies, changed, reviews, state


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(choose=st.randoms(use_true_random=False))
def test_any_body_gets_a_400_or_a_verdict_whose_patch_applies(choose: random.Random) -> None:
    service, make = Service(state()), bodies(choose)
    for _ in range(3):
        body = make()
        status, answer = asyncio.run(service.ask(body))
        assert status in {200, 400}, (body, service.observer.error)
        if status == httpx.codes.OK and applied(body, answer) is not None:
            event("patched")


PODS = [each for _, each in reviews() if each["request"]["kind"]["kind"] == "Pod"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    choose=st.randoms(use_true_random=False),
    uids=st.lists(st.uuids(), min_size=3, max_size=5, unique=True),
    template=st.sampled_from(PODS),
)
def test_warm_caches_agree(choose: random.Random, uids: list[uuid.UUID], template: Object) -> None:
    warm = Service(state())
    for number, uid in enumerate(uids):
        review = changed(choose, template) if number % 2 else copy.deepcopy(template)
        if not isinstance(review.get("request"), dict):
            continue
        review["request"] |= {"uid": str(uid), "dryRun": True}
        body = Body(MUTATE, json.dumps(review).encode())
        for _ in range(2):
            assert asyncio.run(warm.ask(body)) == asyncio.run(Service(state()).ask(body))
    event(f"{warm.hits} completed from the patch cache")
