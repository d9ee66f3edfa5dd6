"""Requests to one server: how responses are read, and when a connection is used again."""

import asyncio
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.follow.scripted import Script, Visit, scripted
from webhook.follow.dialing import Server, written
from webhook.follow.pool import Pool, Response

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PACKED = gzip.compress(b"x" * 9000)
ZIPPED = b"HTTP/1.1 200 OK\r\nContent-ENCODING: gzip\r\nContent-Length: %d\r\n\r\n%b" % (
    len(PACKED),
    PACKED,
)
ACCEPT = written({"Accept": "application/json"})


@asynccontextmanager
async def asking(script: Script) -> AsyncIterator[tuple[Pool, Callable[[], int]]]:
    """Yield a pool of connections to a server, and how many connections there were."""
    async with scripted(script) as server:
        pool = Pool(Server(f"http://127.0.0.1:{server.port}"), ssl.create_default_context())
        try:
            yield pool, lambda: server.visits
        finally:
            await pool.close()


def saying(*pieces: bytes) -> Script:
    """Return a script that answers each request with the same pieces."""

    async def script(visit: Visit) -> None:
        while True:
            await visit.request()
            await visit.say(*pieces)

    return script


def once(*pieces: bytes) -> Script:
    """Return a script that answers one request, and closes the connection."""

    async def script(visit: Visit) -> None:
        await visit.request()
        await visit.say(*pieces)

    return script


def got(script: Script) -> Response:
    """Return the response to a GET."""

    async def story() -> Response:
        async with asking(script) as (pool, _), asyncio.timeout(5):
            return await pool.request("GET", "/it", ACCEPT)

    return asyncio.run(story())


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ([OK], b"{}"),
        ([OK[place : place + 1] for place in range(len(OK))], b"{}"),
        ([CHUNKED, b"1\r\n{\r\n", b"1\r\n}\r\n0\r\n\r\n"], b"{}"),
        ([CHUNKED, b"0\r\n\r\n"], b""),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", OK], b"{}"),
        ([b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + OK], b"{}"),
        ([b"HTTP/1.1 200 OK\r\n\r\n", b"{", b"}"], b"{}"),
        ([b"HTTP/1.0 200 OK\r\n\r\n{}"], b"{}"),
        ([ZIPPED], b"x" * 9000),
        ([ZIPPED[place : place + 1] for place in range(len(ZIPPED))], b"x" * 9000),
        ([ZIPPED.replace(b": gzip", b":gzip \t")], b"x" * 9000),
    ],
    ids=[
        "in one piece", "byte by byte", "in chunks", "empty", "after 100", "after 103",
        "that ends with the connection", "of HTTP/1.0",
        "compressed", "compressed, byte by byte", "compressed, with spaces",
    ],
)  # fmt: skip
def test_a_response_is_read_however_it_comes(pieces: list[bytes], body: bytes) -> None:
    response = got(once(*pieces))
    assert (response.status, response.body) == (200, body)


def test_a_response_says_when_to_come_again() -> None:
    late = b"HTTP/1.1 429 Too Many\r\nretry-AFTER: 7\r\nContent-Length: 0\r\n\r\n"
    response = got(once(late))
    assert (response.status, response.retry_after) == (429, "7")


@pytest.mark.parametrize(
    "pieces",
    [
        [b"SSH-2.0-OpenSSH_9.2\r\n"],
        [OK[:-1]],
        [OK[:20]],
        [CHUNKED, b"5\r\n{}"],
        [CHUNKED, b"zz\r\n{}"],
        [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: it\r\nConnection: upgrade\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"],
        [],
    ],
    ids=["not HTTP", "cut", "cut head", "cut chunk", "no chunk", "upgrade", "not gzip", "nothing"],
)
def test_what_is_no_whole_response_is_a_broken_connection(pieces: list[bytes]) -> None:
    with pytest.raises(ConnectionError):
        got(once(*pieces))


@pytest.mark.parametrize(
    ("piece", "told"),
    [
        (b"HTTP/1.1 101 It\r\nUpgrade: it\r\nConnection: upgrade\r\n\r\n", "another protocol's"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n{}", "incorrect header check"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000, "the head of the response is larger"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10_000, "the head of the response is larger"),
    ],
    ids=["upgrade", "not gzip", "many headers", "many responses to come"],
)
def test_what_the_server_sent_is_named(
    piece: bytes, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(visit: Visit) -> None:
        await visit.request()
        await visit.say(piece)
        await asyncio.sleep(3600)

    with pytest.raises(ConnectionError, match=told):
        got(script)
    assert not caplog.records


@pytest.mark.parametrize("streaming", [False, True])
def test_of_a_refusal_no_more_is_read_than_a_person_wants(streaming: bool) -> None:  # noqa: FBT001
    endless = [b"%x\r\n%b\r\n" % (1 << 16, b"x" * (1 << 16))] * 64

    async def script(visit: Visit) -> None:
        await visit.request()
        await visit.say(CHUNKED.replace(b"200 OK", b"500 It"), *endless)
        await asyncio.sleep(3600)

    async def story() -> None:
        async with asking(script) as (pool, visits):
            for asked in (1, 2):
                async with asyncio.timeout(5):
                    response = await pool.request("GET", "/it", ACCEPT, streaming=streaming)
                assert response.status == 500
                assert len(response.body) < 1 << 20
                assert visits() == asked

    asyncio.run(story())


def test_one_connection_serves_one_request_after_the_other() -> None:
    async def story() -> None:
        async with asking(saying(OK)) as (pool, visits):
            for method in ("GET", "PUT", "DELETE", "GET"):
                assert (await pool.request(method, "/it", ACCEPT, b"{}")).body == b"{}"
            assert visits() == 1

    asyncio.run(story())


def test_requests_at_the_same_time_have_a_connection_each() -> None:
    async def story() -> None:
        async with asking(saying(OK)) as (pool, visits):
            await asyncio.gather(*[pool.request("GET", "/it", ACCEPT) for _ in range(3)])
            assert visits() == 3
            await asyncio.gather(*[pool.request("GET", "/it", ACCEPT) for _ in range(3)])
            assert visits() == 3

    asyncio.run(story())


@pytest.mark.parametrize(
    "first",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        OK + b"HTTP/1.1 500 Nobody asked\r\n\r\n",
    ],
    ids=["that closes it", "of HTTP/1.0", "with another one behind it"],
)
def test_a_connection_is_not_used_after_a_response(first: bytes) -> None:
    async def story() -> None:
        async with asking(saying(first)) as (pool, visits):
            for _ in range(3):
                assert (await pool.request("PUT", "/it", ACCEPT, b"{}")).body == b"{}"
                await asyncio.sleep(0.01)
            assert visits() == 3

    asyncio.run(story())


def test_a_connection_that_the_server_closed_meanwhile_is_left() -> None:
    async def story() -> None:
        async with asking(once(OK)) as (pool, visits):
            for _ in range(3):
                await pool.request("PUT", "/it", ACCEPT, b"{}")
                await asyncio.sleep(0.02)
            assert visits() == 3

    asyncio.run(story())


@pytest.mark.parametrize(("method", "asked"), [("GET", 3), ("PUT", 2), ("POST", 2), ("DELETE", 2)])
def test_only_a_get_is_repeated_when_the_server_closes_instead_of_answering(
    method: str, asked: int
) -> None:
    requests: list[bytes] = []

    async def script(visit: Visit) -> None:
        requests.append(await visit.request())
        await visit.say(OK)
        if len(requests) == 1:
            requests.append(await visit.request())  # and it is never answered

    async def story() -> None:
        async with asking(script) as (pool, _):
            await pool.request(method, "/it", ACCEPT)
            try:
                assert (await pool.request(method, "/it", ACCEPT)).body == b"{}"
            except ConnectionError:
                assert method != "GET"
            else:
                assert method == "GET"

    asyncio.run(story())
    assert len(requests) == asked


def test_a_get_whose_response_had_begun_is_not_repeated() -> None:
    requests: list[bytes] = []

    async def script(visit: Visit) -> None:
        for answer in (OK, OK[:-1]):
            requests.append(await visit.request())
            await visit.say(answer)

    async def story() -> None:
        async with asking(script) as (pool, _):
            await pool.request("GET", "/it", ACCEPT)
            with pytest.raises(ConnectionError):
                await pool.request("GET", "/it", ACCEPT)

    asyncio.run(story())
    assert len(requests) == 2


def test_a_request_that_is_given_up_closes_its_connection() -> None:
    async def script(visit: Visit) -> None:
        await visit.request()
        await visit.say(OK[:-1])
        await asyncio.sleep(3600)

    async def story() -> None:
        async with asking(script) as (pool, visits):
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await pool.request("GET", "/it", ACCEPT)
            assert visits() == 2

    asyncio.run(story())


async def silent(visit: Visit) -> None:
    """Answer nothing."""
    await visit.request()
    await asyncio.sleep(3600)


@pytest.mark.parametrize(
    ("script", "seconds"), [(silent, 0.02), (saying(OK), 0)], ids=["asked", "being opened"]
)
def test_what_is_under_way_ends_with_the_pool(script: Script, seconds: float) -> None:
    async def story() -> None:
        async with asking(script) as (pool, _):
            under_way = asyncio.create_task(pool.request("GET", "/it", ACCEPT))
            await asyncio.sleep(seconds)
            await pool.close()
            with pytest.raises(ConnectionError):
                await under_way

    asyncio.run(story())


def test_a_get_is_not_repeated_when_the_pool_ends() -> None:
    async def script(visit: Visit) -> None:
        await visit.request()
        await visit.say(OK)
        await asyncio.sleep(3600)

    async def story() -> None:
        async with asking(script) as (pool, visits):
            await pool.request("GET", "/it", ACCEPT)
            again = asyncio.create_task(pool.request("GET", "/it", ACCEPT))
            await asyncio.sleep(0.02)
            await pool.close()
            with pytest.raises(ConnectionError):
                await again
            assert visits() == 1

    asyncio.run(story())


async def streamed(pool: Pool, idle: float) -> list[bytes]:
    """Return the chunks of a stream."""
    response = await pool.request("GET", "/it", ACCEPT, streaming=True)
    assert response.status == 200
    try:
        return [chunk async for chunk in response.connection.chunks(idle)]
    finally:
        response.connection.abort()


def test_a_stream_gives_what_comes_as_it_comes() -> None:
    async def script(visit: Visit) -> None:
        await visit.request()
        await visit.say(CHUNKED)
        for line in (b"one\n", b"two\n"):
            await visit.say(b"4\r\n%b\r\n" % line)
            await asyncio.sleep(0.02)
        await visit.say(b"0\r\n\r\n")

    async def story() -> None:
        async with asking(script) as (pool, _):
            assert await streamed(pool, 5) == [b"one\n", b"two\n"]

    asyncio.run(story())


@pytest.mark.parametrize("pieces", [[b"4\r\none\n\r\n"], [b"4\r\non"]], ids=["chunk", "half"])
def test_a_stream_that_breaks_says_so_after_what_had_come(pieces: list[bytes]) -> None:
    async def story() -> None:
        async with asking(once(CHUNKED, *pieces)) as (pool, _):
            response = await pool.request("GET", "/it", ACCEPT, streaming=True)
            chunks = response.connection.chunks(5)
            assert b"one\n".startswith(await anext(chunks))
            with pytest.raises(ConnectionError):
                await anext(chunks)

    asyncio.run(story())


def test_a_stream_may_come_compressed() -> None:
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)

    async def script(visit: Visit) -> None:
        await visit.request()
        await visit.say(CHUNKED.replace(b"\r\n", b"\r\nContent-Encoding: gzip\r\n", 1))
        for line in (b"one\n", b"two\n"):
            packed = packer.compress(line) + packer.flush(zlib.Z_SYNC_FLUSH)
            await visit.say(*[b"1\r\n%c\r\n" % byte for byte in packed])
        await visit.say(b"0\r\n\r\n")

    async def story() -> None:
        async with asking(script) as (pool, _):
            assert b"".join(await streamed(pool, 5)) == b"one\ntwo\n"

    asyncio.run(story())


def test_a_stream_without_a_length_is_not_whole_when_it_is_given_up() -> None:
    async def script(visit: Visit) -> None:
        await visit.request()
        await visit.say(b"HTTP/1.1 200 OK\r\n\r\n", b"one\n")
        await asyncio.sleep(3600)

    async def story() -> None:
        async with asking(script) as (pool, _):
            response = await pool.request("GET", "/it", ACCEPT, streaming=True)
            chunks = response.connection.chunks(5)
            assert await anext(chunks) == b"one\n"
            await pool.close()
            with pytest.raises(ConnectionError):
                await anext(chunks)

    asyncio.run(story())


def test_a_stream_may_trickle_but_not_fall_silent() -> None:
    async def script(visit: Visit) -> None:
        await visit.request()
        await visit.say(CHUNKED)
        for _ in range(6):
            await visit.say(b"1\r\nx\r\n")
            await asyncio.sleep(0.06)
        await asyncio.sleep(3600)

    async def story() -> None:
        taken: list[bytes] = []
        begun = asyncio.get_running_loop().time()
        async with asking(script) as (pool, _):
            response = await pool.request("GET", "/it", ACCEPT, streaming=True)
            chunks = response.connection.chunks(0.2)
            while b"".join(taken) != b"x" * 6:
                taken.append(await anext(chunks))
            with pytest.raises(TimeoutError):
                await anext(chunks)
            response.connection.abort()
        assert asyncio.get_running_loop().time() - begun > 0.2 + 5 * 0.06

    asyncio.run(story())


def test_a_server_waits_while_nobody_takes_what_it_streams() -> None:
    sent = 0
    piece = b"%x\r\n%b\r\n" % (1 << 16, b"x" * (1 << 16))

    async def script(visit: Visit) -> None:
        nonlocal sent
        await visit.request()
        visit.writer.write(CHUNKED)
        for _ in range(512):
            visit.writer.write(piece)
            await visit.writer.drain()
            sent += 1
        await visit.say(b"0\r\n\r\n")

    async def story() -> None:
        async with asking(script) as (pool, _):
            response = await pool.request("GET", "/it", ACCEPT, streaming=True)
            before = -1
            while before < sent:  # until the buffers between us are full
                before = sent
                await asyncio.sleep(0.2)
            assert sent < 256
            sizes = [len(chunk) async for chunk in response.connection.chunks(5)]
            assert sum(sizes) == 512 << 16
            assert max(sizes) <= 1 << 17  # a part that nearly fills a chunk, and what a read had

    asyncio.run(story())


def test_others_have_their_turn_while_a_stream_is_ahead() -> None:
    many = b"".join(b"%x\r\n%b\r\n" % (1 << 15, b"x" * (1 << 15)) for _ in range(32))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def story() -> None:
        async with asking(once(CHUNKED + many + b"0\r\n\r\n")) as (pool, _):
            response = await pool.request("GET", "/it", ACCEPT, streaming=True)
            await asyncio.sleep(0.2)
            task = asyncio.create_task(other())
            chunks = 0
            async for chunk in response.connection.chunks(5):
                chunks += bool(chunk)
            task.cancel()
            assert chunks >= 16
            assert turns >= chunks - 1

    asyncio.run(story())


def test_a_stream_that_is_refused_has_a_body() -> None:
    gone = b"HTTP/1.1 410 Gone\r\nContent-Length: 7\r\n\r\n"

    async def story() -> None:
        async with asking(saying(gone, b"expired")) as (pool, visits):
            for _ in range(2):
                response = await pool.request("GET", "/it", ACCEPT, streaming=True)
                assert (response.status, response.body) == (410, b"expired")
            assert visits() == 1

    asyncio.run(story())
