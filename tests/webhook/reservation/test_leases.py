"""Tables in Leases of an API server: their content, their deletion, and the required rights."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.harness.fake_api import LEASES, RAYCLUSTERS, FakeApi, Object, Request
from tests.harness.following import beside, client_of, eventually, plain
from tests.harness.objects import a_raycluster
from tests.lab.bench.reservations import requests
from tests.webhook.reservation.server import Direct, lease_store
from webhook.api import names
from webhook.api.review import Denied, NotNow
from webhook.groups.identity import GroupKey, ShardKey
from webhook.kubeclient.reservation_leases import LeaseStore, _Content
from webhook.reservation.stores import Conflict, Reserved, TableKey, UnknownOutcome, at_once

HOME = "ray-webhook"
KEY = TableKey(GroupKey("default", "uid-of-ray", "tpu"), 0)
GONE = TableKey(GroupKey("default", "uid-of-another", "tpu"), 0)
SHARDS = TableKey(ShardKey("default", "search"), 0)
TABLE = {0: Reserved("tpu-abcde", 1.5, {0: "0123456789ab", 3: "ba9876543210"})}


@asynccontextmanager
async def stored() -> AsyncIterator[tuple[FakeApi, LeaseStore]]:
    async with FakeApi().serving() as fake, client_of(plain(fake)) as api:
        yield fake, LeaseStore(api, HOME)


def contents(fake: FakeApi) -> list[str]:
    annotation = names.ANNOTATION_RESERVATIONS
    return [each["metadata"]["annotations"][annotation] for each in fake.objects(LEASES).values()]


def content(fake: FakeApi) -> Object:
    (text,) = contents(fake)
    found: Object = json.loads(text)
    return found


async def test_a_table_is_read_as_it_was_written_and_people_can_read_it_too() -> None:
    async with stored() as (fake, store):
        assert await store.get(KEY) is None
        made = await store.write(KEY, TABLE, "ray")
        assert await store.get(KEY) == made
        assert made.table == TABLE
        assert content(fake) == {
            "namespace": "default", "cluster": "ray", "uid": "uid-of-ray", "group": "tpu",
            "block": 0,
            "entries": {"0": {
                "name": "tpu-abcde", "made": 1.5,
                "hosts": {"0": "0123456789ab", "3": "ba9876543210"}}}}  # fmt: skip


async def test_a_write_that_does_not_know_the_newest_version_is_a_conflict() -> None:
    async with stored() as (fake, store):
        first = await store.write(KEY, TABLE, "ray")
        with pytest.raises(Conflict):
            await store.write(KEY, {}, "ray")
        second = await store.write(KEY, {}, "ray", first)
        assert (second.uid, second.table) == (first.uid, {})
        with pytest.raises(Conflict):
            await store.write(KEY, TABLE, "ray", first)
        (name,) = fake.objects(LEASES)
        fake.delete(LEASES, name, HOME)
        with pytest.raises(Conflict):
            await store.write(KEY, TABLE, "ray", second)


@pytest.mark.parametrize(("status", "error"), [
    (403, NotNow), (422, NotNow), (429, UnknownOutcome), (500, UnknownOutcome),
])  # fmt: skip
async def test_refusals_differ_from_unknown_outcomes(status: int, error: type[Exception]) -> None:
    async with stored() as (fake, store):
        fake.before = lambda _: status
        with pytest.raises(error, match=f"group tpu cannot be written.*{status}"):
            await store.write(KEY, TABLE, "ray")


@pytest.mark.parametrize(("key", "indices", "hosts", "advice"), [
    (KEY, 16, 2400, "of 16 replicas of group tpu .*: lower numOfHosts"),
    (SHARDS, 2400, 1, "of shard group search .*: begin another shard group"),
])  # fmt: skip
async def test_a_huge_table_is_denied(key: TableKey, indices: int, hosts: int, advice: str) -> None:
    async with stored() as (fake, store):
        entry = Reserved(f"ray-{0:060}", 1.5, dict.fromkeys(range(hosts), "0123456789ab"))
        with pytest.raises(Denied, match=advice):
            await store.write(key, dict.fromkeys(range(indices), entry), "ray")
        assert fake.objects(LEASES) == {}


HOLDERS = {"0": "0123456789ab"}


@pytest.mark.parametrize("edited", [
    *({}, {"entries": {"-1": {"name": "", "made": 1.5, "hosts": HOLDERS}}}),
    *({"entries": {"0": {"name": "", "made": 1.5,
     "hosts": {host: "0123456789ab"}}}} for host in ("-1", "9000000000")),
])  # fmt: skip
async def test_what_somebody_else_wrote_into_a_lease_is_not_used(edited: Object) -> None:
    async with stored() as (fake, store):
        await store.write(KEY, TABLE, "ray")
        text = json.dumps({**content(fake), **edited} if edited else {})
        (lease,) = fake.objects(LEASES).values()
        lease["metadata"]["annotations"] = {names.ANNOTATION_RESERVATIONS: text}
        fake.put(LEASES, lease)
        with pytest.raises(NotNow, match="delete Lease ray-webhook-reservations-"):
            await store.get(KEY)


def test_a_write_to_a_table_that_was_deleted_is_a_conflict_and_makes_no_other() -> None:
    api = Direct()
    store = lease_store(api)
    known = at_once(store.write(KEY, TABLE, "ray"))
    api.server.leases.clear()
    with pytest.raises(Conflict):
        at_once(store.write(KEY, TABLE, "ray", known))
    assert api.server.leases == {}


async def test_tables_of_rayclusters_that_do_not_exist_are_deleted_and_others_stay() -> None:
    async with stored() as (fake, store):
        fake.put(RAYCLUSTERS, a_raycluster())
        for key in (KEY, GONE, SHARDS):
            await store.write(key, TABLE, "ray")
        await store.clean_up()
        kept = [key for key in (KEY, GONE, SHARDS) if await store.get(key)]
        assert kept == [KEY]


async def test_the_table_of_a_shard_group_stays_while_a_raycluster_is_of_it_or_may_come() -> None:
    async with stored() as (fake, store):
        shard = a_raycluster("a")
        shard["metadata"]["annotations"] = {names.ANNOTATION_SHARD_GROUP: "search"}
        fake.put(RAYCLUSTERS, shard)
        await store.write(SHARDS, TABLE, "a")
        await store.clean_up()
        assert await store.get(SHARDS)
        fake.delete(RAYCLUSTERS, "a")
        known = await store.get(SHARDS)
        assert known is not None
        await store.write(SHARDS, {0: Reserved("b", 9e9, {0: "x"})}, "b", known)
        await store.clean_up()
        assert await store.get(SHARDS)


async def test_a_namespace_that_cannot_be_listed_leaves_its_tables_alone_and_no_others() -> None:
    async with stored() as (fake, store):
        secret = TableKey(GroupKey("secret", "uid-of-another", "tpu"), 0)
        for key in (secret, GONE):
            await store.write(key, TABLE, "ray")

        def forbid(request: Request) -> int:
            tables = len(fake.objects(LEASES))
            return 403 if request.resource == RAYCLUSTERS and tables == 2 else 0

        fake.before = forbid
        await store.clean_up()
        assert len(fake.objects(LEASES)) == 2
        fake.before = lambda _: 0
        await store.clean_up()
        assert len(fake.objects(LEASES)) == 0


async def test_a_table_that_stays_unreadable_from_one_sweep_to_the_next_is_deleted() -> None:
    async with stored() as (fake, store):
        fake.put(RAYCLUSTERS, a_raycluster())
        await store.write(KEY, TABLE, "ray")
        ((name, lease),) = fake.objects(LEASES).items()

        def spoil(spoiled: str, text: str) -> None:
            meta = {**lease["metadata"], "name": spoiled}
            meta["annotations"] = {names.ANNOTATION_RESERVATIONS: text}
            fake.put(LEASES, {**lease, "metadata": meta})

        spoil("of-another-program", "{")
        for text in "[{":
            spoil(name, text)
            await store.clean_up()
            assert {*fake.objects(LEASES)} == {name, "of-another-program"}
        await store.clean_up()
        assert {*fake.objects(LEASES)} == {"of-another-program"}


async def test_tables_are_swept_page_by_page() -> None:
    async with stored() as (fake, store):
        fake.put(RAYCLUSTERS, a_raycluster())
        for block in range(130):
            for key in (KEY, GONE):
                await store.write(key._replace(block=block), TABLE, "ray")

        def decoded() -> int:
            return sum(type(each) is _Content for each in gc.get_objects())

        alive, before, verb = list[int](), decoded(), ""

        def count(request: Request) -> int:
            nonlocal verb
            if request.verb != verb:  # with a page, and when it is swept
                alive.append(decoded() - before)
            verb = request.verb
            return 0

        fake.before = count
        await store.clean_up()
        lists = [request for request in fake.requests if request.verb == "list"]
        assert [each.resource for each in lists].count(RAYCLUSTERS) == 1
        assert max(alive) <= 100
        assert {json.loads(text)["uid"] for text in contents(fake)} == {"uid-of-ray"}
        assert len(contents(fake)) == 130


@pytest.mark.parametrize(("processes", "reads"), [(1, 0), (2, 1)])
def test_a_table_of_several_writers_is_read_before_a_write(processes: int, reads: int) -> None:
    a_pod = asyncio.run(requests(processes, hosts=4))
    assert a_pod["create"] + a_pod["update"] == pytest.approx(1, abs=0.1)
    assert a_pod["get"] == pytest.approx(reads, abs=0.1)


async def test_a_process_is_ready_if_it_may_create_leases(caplog: pytest.LogCaptureFixture) -> None:
    async with stored() as (fake, store):
        fake.before = lambda request: 403 if request.verb == "create" else 0
        async with beside(store.run()):
            await eventually(lambda: len(fake.requests) > 2)
            assert caplog.text.count("cannot be created in namespace ray-webhook") == 1
            assert not store.accepted
            fake.before = lambda _: 0
            await eventually(lambda: store.accepted)
            assert fake.objects(LEASES) == {}
