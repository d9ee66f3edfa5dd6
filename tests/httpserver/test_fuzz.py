"""Fuzzed reviews: any change gives a verdict or a 4xx, without delay, and independent of earlier
requests.
"""

import asyncio
import copy
import json
import random
import uuid
from typing import Any

import httpx
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.apiserver import ApiServer, pod_review
from tests.hostile.bodies import (
    MUTATE,
    Body,
    Service,
    applied,
    bodies,
    changed,
    reviews,
    state,
)
from tests.httpserver.pods import Object, worker

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=80),
    st.sampled_from(
        [
            "",
            "0",
            "-1",
            "ray.io/group",
            "2x2x2",
            "4",
            "x" * 300,
            "\x00",
            "٣",
            "999999999999",
            "true",
        ]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20), inner, max_size=3)
    ),
    max_leaves=8,
)


def full_worker() -> Object:
    """Return a worker with something in every field that is read."""
    pod = worker("hosts-4", index="0", name="hosts-4-abcde", host="1")
    env = [{"name": "TPU_WORKER_ID", "value": "0"}, {"name": "MEGASCALE_NUM_SLICES", "value": "2"}]
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    pod["spec"] |= {
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": "tpu7x-4t",
            "cloud.google.com/gke-tpu-topology": "2x2x4",
        },
        "affinity": {"podAffinity": affinity, "podAntiAffinity": affinity},
        "initContainers": [{"name": "init", "env": env}],
        "hostname": "",
        "subdomain": "",
    }
    pod["spec"]["containers"][0] |= {
        "env": env,
        "resources": {"limits": {"google.com/tpu": "4"}, "requests": {"nvidia.com/gpu": 1}},
    }
    return pod


def places(value: object, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at] if at else []
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        found += places(inner, (*at, key))
    return found


PLACES = places(pod_review(full_worker()))


@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    changes=st.lists(
        st.tuples(st.sampled_from(PLACES), st.one_of(VALUES, st.just(...))), min_size=1, max_size=4
    )
)
def test_a_mutated_review_never_gets_a_500_or_a_hang(
    api: ApiServer, changes: list[tuple[tuple[Any, ...], Any]]
) -> None:
    review: Any = copy.deepcopy(pod_review(full_worker(), dry_run=True))
    for path, value in changes:
        target = review
        try:
            for key in path[:-1]:
                target = target[key]
            if value is ...:
                del target[path[-1]]
            else:
                target[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue
    answer = api.post("/mutate", json.dumps(review).encode())
    assert answer.status_code in {200, 400}, answer.text
    if answer.status_code == httpx.codes.OK:
        assert isinstance(answer.json()["response"]["allowed"], bool)


@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_review_with_damaged_bytes_never_gets_a_500(api: ApiServer, data: st.DataObject) -> None:
    body = bytearray(json.dumps(pod_review(full_worker(), dry_run=True)).encode())
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    assert api.post("/mutate", bytes(body)).status_code in {200, 400}


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(choose=st.randoms(use_true_random=False))
def test_any_body_gets_a_400_or_a_verdict_whose_patch_applies_to_what_was_sent(
    choose: random.Random,
) -> None:
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
def test_warm_caches_and_cold_ones_give_the_same_bytes(
    choose: random.Random, uids: list[uuid.UUID], template: Object
) -> None:
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
