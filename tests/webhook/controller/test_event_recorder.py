"""The event recorder: one series for each replica and reason, with any leader."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from tests.harness.fake_api import EVENTS, FakeApi, Object, Request
from tests.harness.following import client_of, plain
from webhook.controller.events import CONTROLLER, EventRecorder
from webhook.diagnostics.tracker import EventRequest, Kind, SeriesKey
from webhook.kubeclient.client import Api, Query
from webhook.kubeclient.errors import ApiError

NOW = 1_732_190_400.0


def a_notice(reason: str = "HostMissing", replica: str = "tpu-x7k2p") -> EventRequest:
    kind: Kind = "Normal" if reason == "ReplicaComplete" else "Warning"
    key = SeriesKey("uid-of-llama", ("tpu", replica), reason)
    return EventRequest(key, kind, "team", "llama", f"replica 0 ({replica}) lacks host 3")


@asynccontextmanager
async def recording(api: FakeApi, instance: str = "one") -> AsyncIterator[EventRecorder]:
    async with client_of(plain(api)) as connection:
        yield EventRecorder(connection, instance)


def events(api: FakeApi) -> list[Object]:
    return [*api.objects(EVENTS).values()]


async def test_an_event_says_of_what_raycluster_it_is_why_and_who_says_so(api: FakeApi) -> None:
    async with recording(api) as recorder:
        notice = structs.replace(a_notice(), note="replica\x7f0 (tpu-x7k2p)\u202elacks host 3")
        await recorder.record([notice], NOW)
    (event,) = events(api)
    assert event["regarding"] == {
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "namespace": "team", "name": "llama",
        "uid": "uid-of-llama"}  # fmt: skip
    assert (event["type"], event["reason"]) == ("Warning", "HostMissing")
    assert event["note"] == "replica 0 (tpu-x7k2p) lacks host 3"
    assert (event["reportingController"], event["reportingInstance"]) == (CONTROLLER, "one")
    assert event["eventTime"] == "2024-11-21T12:00:00.000000Z"
    assert "series" not in event


async def test_what_lasts_is_one_event_that_is_written_again_every_half_hour(api: FakeApi) -> None:
    async with recording(api) as recorder:
        for seconds in range(0, 3610, 10):
            await recorder.record([a_notice()], NOW + seconds)
    (event,) = events(api)
    assert event["series"] == {"count": 3, "lastObservedTime": "2024-11-21T13:00:00.000000Z"}
    assert recorder.written == {"HostMissing": 3}


async def test_what_comes_and_goes_is_written_every_five_minutes_at_most(api: FakeApi) -> None:
    async with recording(api) as recorder:
        for seconds in range(0, 600, 20):
            await recorder.record([a_notice()], NOW + seconds)
            await recorder.record([], NOW + seconds + 10)
    (event,) = events(api)
    assert event["series"]["count"] == 2


async def test_replicas_and_reasons_have_an_event_each(api: FakeApi) -> None:
    notices = [
        a_notice(), a_notice(replica="tpu-zzzzz"), a_notice("IdentityDuplicate"),
        a_notice("ReplicaComplete")]  # fmt: skip
    async with recording(api) as recorder:
        await recorder.record(notices, NOW)
    assert len(events(api)) == 4
    assert {event["type"] for event in events(api)} == {"Warning", "Normal"}


async def test_another_process_goes_on_with_the_series(api: FakeApi) -> None:
    for seconds, instance in enumerate(("one", "two", "three")):
        async with recording(api, instance) as recorder:
            await recorder.record([a_notice()], NOW + seconds)
    (event,) = events(api)
    assert event["series"]["count"] == 3
    assert event["reportingInstance"] == "one"


async def test_an_event_that_the_api_server_has_forgotten_is_made_anew(api: FakeApi) -> None:
    async with recording(api) as recorder:
        await recorder.record([a_notice()], NOW)
        for seconds in (3599, 3599 + 3600):
            api.delete(EVENTS, events(api)[0]["metadata"]["name"], "team")
            await recorder.record([a_notice()], NOW + seconds)
    (event,) = events(api)
    assert "series" not in event
    assert api.count("patch", EVENTS) == 1  # an hour later, it is gone for certain


async def test_events_that_failed_are_written_later_and_counted(api: FakeApi) -> None:
    refused = [503, 503]

    def before(request: Request) -> int:
        return refused.pop() if request.verb == "create" and refused else 0

    api.before = before
    async with recording(api) as recorder:
        await recorder.record([a_notice("ReplicaComplete")], NOW)
        await recorder.record([], NOW + 10)
        assert events(api) == []
        await recorder.record([], NOW + 20)
    assert len(events(api)) == 1
    assert recorder.failures == {"server": 2}


async def test_a_flood_is_spread_over_looks(api: FakeApi) -> None:
    notices = [a_notice(replica=f"tpu-{number}") for number in range(150)]
    other = structs.replace(a_notice(), namespace="other", cluster="other")
    notices.append(structs.replace(other, key=other.key._replace(uid="other")))
    async with recording(api) as recorder:
        await recorder.record(notices, NOW)
        assert len(events(api)) == 100
        assert "other" in {event["metadata"]["namespace"] for event in events(api)}
        await recorder.record(notices, NOW + 10)
    assert len(events(api)) == 151
    assert api.count("create", EVENTS) == 151


class Stumbling(Api):
    """A client with an error that events about one replica bring out."""

    error: Exception

    async def create(
        self, path: str, body: Mapping[str, object], deadline: float = 5.0, query: Query = ()
    ) -> bytes:
        if "tpu-x7k2p" in str(body["note"]):
            raise self.error
        return await super().create(path, body, deadline, query)


@pytest.mark.parametrize(("error", "reason"), [
    (ValueError("a bug"), "unexpected"), (ApiError("forbidden", "a bug"), "forbidden"),
])  # fmt: skip
async def test_a_failure_of_one_event_keeps_no_other(
    api: FakeApi, caplog: pytest.LogCaptureFixture, error: Exception, reason: str
) -> None:
    async with Stumbling(plain(api)) as connection:
        connection.error = error
        recorder = EventRecorder(connection, "one")
        for seconds in range(0, 3610, 10):
            await recorder.record([a_notice(), a_notice(replica="tpu-zzzzz")], NOW + seconds)
    (event,) = events(api)
    assert event["series"]["count"] == 3
    assert recorder.failures == {reason: 3}
    (record,) = [each for each in caplog.records if "a bug" in each.getMessage()]
    assert "RayCluster team/llama" in record.getMessage()
    assert bool(record.exc_info) == (reason == "unexpected")


async def test_an_event_that_always_fails_is_tried_after_the_others(api: FakeApi) -> None:
    async with Stumbling(plain(api)) as connection:
        connection.error = ApiError("server", "etcdserver: request is too large")
        recorder = EventRecorder(connection, "one")
        for seconds in (0, 10, 20):
            await recorder.record([a_notice(), a_notice(replica="tpu-zzzzz")], NOW + seconds)
    assert len(events(api)) == 1
    assert recorder.failures == {"server": 3}
