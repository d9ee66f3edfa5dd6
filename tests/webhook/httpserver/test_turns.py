"""Reviews that are too long for the event loop: turns between clients and namespaces."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable

import pytest

from webhook.httpserver.review_threads import WAITING_MAX, QueueFull, ReviewThreads, namespace_of

LARGE = b" " * 200_000


def body_of(namespace: str, padding: bytes = b"") -> bytes:
    return (
        b'{"request": {"uid": "u", "namespace": "%b", "object": {}}}' % namespace.encode() + padding
    )


@pytest.fixture
async def threads() -> AsyncIterator[ReviewThreads]:
    threads = ReviewThreads()
    running = asyncio.create_task(threads.run())
    await asyncio.sleep(0)
    yield threads
    running.cancel()
    await asyncio.wait([running])


async def order_of(threads: ReviewThreads, calls: Iterable[tuple[str, str]]) -> list[str]:
    """Return the order in which reviews of (client, namespace) are computed that wait together."""
    gate, computed = threading.Event(), list[str]()

    def compute(_body: bytes, name: str) -> None:
        computed.append(name)

    first = threads("first", body_of("first"), lambda _: gate.wait())
    waiting = [
        threads(client, body_of(namespace), compute, f"{client}/{namespace}")
        for client, namespace in calls
    ]
    gate.set()
    await asyncio.gather(first, *waiting)
    return computed


async def test_namespaces_take_turns_whoever_came_first(threads: ReviewThreads) -> None:
    order = await order_of(threads, [*[("api", "busy")] * 3, ("api", "other"), ("api", "third")])
    assert order == ["api/busy", "api/other", "api/third", "api/busy", "api/busy"]


async def test_clients_take_turns_whatever_namespaces_they_write(threads: ReviewThreads) -> None:
    forged = [("pod", f"n{number}") for number in range(3)]
    order = await order_of(threads, [*forged, ("api", "team")])
    assert order == ["pod/n0", "api/team", "pod/n1", "pod/n2"]


async def test_a_small_review_does_not_wait_for_a_large_one(threads: ReviewThreads) -> None:
    gate = threading.Event()
    large = threads("api", body_of("a", LARGE), lambda _: gate.wait())
    assert await threads("api", body_of("a"), len) == len(body_of("a"))
    gate.set()
    await large


async def test_a_namespace_with_too_many_reviews_receives_its_place_and_others_are_served(
    threads: ReviewThreads,
) -> None:
    gate = threading.Event()
    first = threads("api", body_of("first"), lambda _: gate.wait())
    waiting = [threads("api", body_of("busy"), len) for _ in range(WAITING_MAX)]
    with pytest.raises(QueueFull, match=f"{WAITING_MAX} reviews of namespace busy wait before"):
        threads("api", body_of("busy"), len)
    waiting.append(threads("api", body_of("other"), len))
    gate.set()
    await asyncio.gather(first, *waiting)
    assert await threads("api", body_of("busy"), len)


async def test_a_review_whose_caller_has_gone_is_not_computed_and_an_error_is_its_own(
    threads: ReviewThreads,
) -> None:
    gate, computed = threading.Event(), list[bytes]()
    first = threads("api", body_of("first"), lambda _: gate.wait())
    gone = threads("api", body_of("gone"), computed.append)
    wrong = threads("api", body_of("wrong"), lambda _: 1 / 0)
    gone.cancel()
    gate.set()
    with pytest.raises(ZeroDivisionError):
        await wrong
    assert (await first, computed) == (True, [])


@pytest.mark.parametrize(("body", "namespace"), [
    (b"", ""),
    (b'{"request":{"namespace":"team-a","object":{"metadata":{"namespace":"b"}}}}', "team-a"),
    (b'{"request": {"namespace" : "x"}}', "x"),
    (b'{"request":{"object":' + b" " * 10_000 + b'"namespace":"late"}}', ""),
    (b'{"namespace":"' + b"a" * 5000 + b'"}', ""),
])  # fmt: skip
def test_the_namespace_of_a_body_is_read_from_its_beginning(body: bytes, namespace: str) -> None:
    assert namespace_of(body) == namespace
