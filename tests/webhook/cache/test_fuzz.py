"""Malformed lists and events: they never end the process or affect the next valid event."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.harness.fake_api import Object
from tests.harness.objects import KEY, a_pod, a_raycluster, served_by_another
from tests.lab.hostile.bodies import changed, damaged
from webhook.cache.informer import ListWatch
from webhook.cache.serve_stores import PodStore, RayClusterStore, pods_in, rayclusters_in
from webhook.cache.store import Store, number
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Clock
from webhook.kubeclient.wire import Resource

IDENTITY = HostIdentity(1, 2, "tpu-abcde")
KINDS = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


def an_event(kind: str, value: Object, uid: str, version: int) -> Object:
    meta = {**value["metadata"], "uid": uid, "resourceVersion": str(version)}
    return {"type": kind, "object": {**value, "metadata": meta}}


class Over(Exception):  # noqa: N818 - named for what it is
    """All lines were sent."""


class Empty:
    """An API server without objects, whose watches send lines that are given."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)

    async def get(self, *_arguments: object, **_options: object) -> bytes:
        return b'{"metadata": {"resourceVersion": "1"}, "items": []}'

    @asynccontextmanager
    async def stream(
        self, *_arguments: object, **_options: object
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._chunks()

    async def _chunks(self) -> AsyncIterator[bytes]:
        for line in self._lines:
            yield line + b"\n"
        raise Over


def follow(resource: Resource[Any], store: Store[Any, Any, Any], *lines: bytes) -> None:
    """Deliver the lines of a watch; an error ends that watch, and the next one goes on."""
    api: Any = Empty(lines)
    watch = ListWatch(api, resource, store, time_source=Clock(sleep=partial(asyncio.sleep, 0)))
    with pytest.raises(Over):
        asyncio.run(watch.run())
    for reason in watch.counters.errors:
        event(reason)


LINES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.randoms(use_true_random=False), st.booleans()), max_size=4
)


def broken(value: Object, kind: str, choose: random.Random, *, bytewise: bool) -> bytes:
    document = an_event(kind, value, "odd", choose.randrange(1, 90))
    if bytewise:
        return damaged(choose, json.dumps(document).encode())
    return json.dumps(changed(choose, document)).encode(errors="replace")


@pytest.mark.parametrize("adopted", [True, False])
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(lines=LINES)
def test_odd_pods_harm_none(lines: list[tuple[str, random.Random, bool]], adopted: bool) -> None:
    members = Membership()
    pod = served_by_another(a_pod("a"), "tpu-1", "2") if adopted else a_pod("a", IDENTITY)
    odd = [broken(pod, kind, choose, bytewise=bytewise) for kind, choose, bytewise in lines]
    good = json.dumps(an_event("ADDED", a_pod("good", IDENTITY), "good", 100)).encode()
    follow(pods_in(""), PodStore(members), *odd, good)
    good_member = members.get("good")
    assert good_member
    assert good_member == Member(KEY, IDENTITY, name=good_member.name)


@pytest.mark.parametrize("text", [b'"TPU_WORKER_ID"', b'"2"'], ids=["name", "value"])
def test_variables_that_are_not_utf_8_give_no_identity_and_leave_the_next_pod_right(
    text: bytes,
) -> None:
    members = Membership()
    feed = PodStore(members)
    odd = an_event("ADDED", served_by_another(a_pod("odd"), "tpu-1", "2"), "odd", 1)
    good = an_event("ADDED", a_pod("good", IDENTITY), "good", 100)
    not_text = json.dumps(odd).encode().replace(text, b'"\x80"')
    follow(pods_in(""), feed, not_text, json.dumps(good).encode())
    assert [(uid, member.identity) for uid, member in members.items()] == [("good", IDENTITY)]
    assert feed.malformed == 1


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(lines=LINES)
def test_odd_rayclusters_leave_the_next_right(lines: list[tuple[str, random.Random, bool]]) -> None:
    index = ClusterIndex()
    odd = [broken(a_raycluster(), *drawn[:2], bytewise=drawn[2]) for drawn in lines]
    good = json.dumps(an_event("ADDED", a_raycluster("last"), "u", 100)).encode()
    follow(rayclusters_in(""), RayClusterStore(index), *odd, good)
    cluster_config = index.get("default", "last")
    assert cluster_config is not None
    assert cluster_config.groups["tpu"].num_of_hosts == 4


PODS, RAYCLUSTERS = pods_in("default").codec, rayclusters_in("default").codec


@pytest.mark.parametrize(("version", "value"), [
    ("0", 0), ("17", 17), ("18446744073709551615", 2**64 - 1),
    *((text, 0) for text in ("", "x", "-1", "1.5", "٣", "9" * 21, "9" * 5000)),
])  # fmt: skip
def test_a_version_is_its_number(version: str, value: int) -> None:
    assert number(version) == value


KEYS = st.sampled_from(
    ["metadata", "spec", "labels", "name", "uid", "resourceVersion", "workerGroupSpecs", "items"]
)
VALUES: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.text(max_size=9),
    lambda inner: st.dictionaries(KEYS, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=12,
)


@given(objects=st.lists(VALUES, max_size=4))
def test_a_list_of_anything_is_read_without_invalid_or_garbled(objects: list[object]) -> None:
    body = json.dumps({"metadata": {"resourceVersion": "7"}, "items": objects}).encode()
    for codec in (PODS, RAYCLUSTERS):
        try:
            [(meta, items)] = codec.portions(body)
        except ApiError:
            continue
        assert meta.resource_version == "7"
        assert len(items) <= len(objects)
