"""Malformed events of a watch: each is handled or ends that watch, never the process, and none
affects the next valid event.
"""

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.hostile.bodies import changed, damaged
from tests.kubeclient.fake_api import Object
from tests.kubeclient.objects import (
    KEY,
    a_pod,
    a_raycluster,
    served_by_another,
)
from webhook.cache.informer import ListWatch
from webhook.cache.serve_stores import PodStore, RayClusterStore, pods_in, rayclusters_in
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.kubeclient.errors import ApiError

SEAT = HostIdentity(1, 2, "tpu-abcde")
KINDS = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
ANONYMOUS: Any = None
"""In place of an API server: what it says is given here."""


def an_event(kind: str, value: Object, uid: str, version: int) -> Object:
    meta = {**value["metadata"], "uid": uid, "resourceVersion": str(version)}
    return {"type": kind, "object": {**value, "metadata": meta}}


def take(watch: "ListWatch[Any]", line: bytes) -> None:
    """Take in a line; an error is what ends a watch and begins the next one."""
    try:
        watch._take(line)  # noqa: SLF001 - what a stream does with each of its lines
    except ApiError as error:
        event(error.reason)


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
def test_odd_events_of_pods_leave_the_next_good_one_right(
    lines: list[tuple[str, random.Random, bool]],
    *,
    adopted: bool,
) -> None:
    members = Membership()
    feed = PodStore(members)
    watch = ListWatch(ANONYMOUS, pods_in(""), feed)
    pod = served_by_another(a_pod("a"), "tpu-1", "2") if adopted else a_pod("a", SEAT)
    for kind, choose, bytewise in lines:
        take(watch, broken(pod, kind, choose, bytewise=bytewise))
    take(watch, json.dumps(an_event("ADDED", a_pod("good", SEAT), "good", 100)).encode())
    assert members.get("good") == Member(KEY, SEAT)


def test_variables_that_are_not_utf_8_leave_the_next_pod_right() -> None:
    members = Membership()
    watch = ListWatch(ANONYMOUS, pods_in(""), PodStore(members))
    odd = an_event("ADDED", served_by_another(a_pod("odd"), "tpu-1", "2"), "odd", 1)
    take(watch, json.dumps(odd).encode().replace(b'"TPU_WORKER_ID"', b'"\x80"'))
    take(watch, json.dumps(an_event("ADDED", a_pod("good", SEAT), "good", 100)).encode())
    assert members.get("good") == Member(KEY, SEAT)


def test_a_former_webhooks_pod_whose_variables_are_no_text_has_no_seat() -> None:
    feed = PodStore(Membership())
    pod = served_by_another(a_pod("a"), "tpu-1", "2")
    line = json.dumps(an_event("ADDED", pod, "odd", 5)).encode()
    take(ListWatch(ANONYMOUS, pods_in(""), feed), line.replace(b'"value": "2"', b'"value": "\x80"'))
    assert feed.malformed == 1


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(lines=LINES)
def test_odd_events_of_rayclusters_leave_the_next_good_one_right(
    lines: list[tuple[str, random.Random, bool]],
) -> None:
    index = ClusterIndex()
    watch = ListWatch(ANONYMOUS, rayclusters_in(""), RayClusterStore(index))
    for kind, choose, bytewise in lines:
        take(watch, broken(a_raycluster(), kind, choose, bytewise=bytewise))
    take(watch, json.dumps(an_event("ADDED", a_raycluster("last"), "u", 100)).encode())
    facts = index.get("default", "last")
    assert facts is not None
    assert facts.groups["tpu"].num_of_hosts == 4
