"""Nodes: the labels that are copied to pods, and a Node that is missing from the watch."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.harness.fake_api import NODES, FakeApi, Object
from tests.harness.following import beside, client_of, eventually, plain
from webhook.cache.nodes import NodeLabels

CLIQUE = "nvidia.com/gpu.clique"


def a_node(name: str, **labels: str) -> Object:
    """Return a Node with labels, and more that is not kept."""
    meta = {"name": name, "labels": {"kubernetes.io/arch": "arm64", **labels}}
    return {"metadata": meta, "status": {"capacity": {"cpu": "144"}}}


@asynccontextmanager
async def following(api: FakeApi) -> AsyncIterator[NodeLabels]:
    async with client_of(plain(api)) as connection:
        nodes = NodeLabels(connection, [CLIQUE, "rack"])
        async with beside(nodes.run()):
            await eventually(lambda: nodes.watch.synced)
            yield nodes


async def test_only_labels_that_are_passed_on_are_stored_and_updated(api: FakeApi) -> None:
    api.put(NODES, {**a_node("n1", **{CLIQUE: "b7.0"}), "kind": "Node"})
    async with following(api) as nodes:
        assert await nodes.labels("n1") == {CLIQUE: "b7.0"}
        api.put(NODES, a_node("n2", rack="r"))
        await eventually(lambda: nodes.watch.counters.events > 0)
        assert await nodes.labels("n2") == {"rack": "r"}
        assert not [request for request in api.requests if request.name]


async def test_a_node_that_the_watch_has_not_delivered_is_read(api: FakeApi) -> None:
    async with following(api) as nodes:
        api.mute()
        api.put(NODES, a_node("late", rack="r"))
        assert await nodes.labels("late") == {"rack": "r"}


async def test_a_node_that_cannot_be_read_has_no_labels(api: FakeApi) -> None:
    async with following(api) as nodes:
        assert await nodes.labels("nobody") == {}


async def test_a_deleted_node_is_forgotten_and_its_successor_is_not(api: FakeApi) -> None:
    api.put(NODES, a_node("n1", rack="old"))
    async with following(api) as nodes:
        api.delete(NODES, "n1", "")
        api.put(NODES, a_node("n1", rack="new"))
        await eventually(lambda: nodes.watch.counters.events >= 2)
        assert await nodes.labels("n1") == {"rack": "new"}
        api.delete(NODES, "n1", "")
        await eventually(lambda: nodes.watch.counters.events >= 3)
        assert await nodes.labels("n1") == {}
