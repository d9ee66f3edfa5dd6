"""Requests over the wire: parsing of responses, reuse of connections, and proxies."""

import asyncio
import gzip
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.harness.following import eventually
from tests.webhook.kubeclient.scripted import Script, Scripted, Visit, scripted, server_tls
from webhook.cache.cluster_cache import UserReads
from webhook.kubeclient.access import Access
from webhook.kubeclient.client import Api
from webhook.kubeclient.errors import ApiError, ConfigurationError

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ZIPPED = b"HTTP/1.1 200 OK\r\nContent-ENCODING: gzip\r\nContent-Length: %d\r\n\r\n%b"
LATE = b"HTTP/1.1 429 Too Many\r\nretry-AFTER: 60\r\nContent-Length: 0\r\n\r\n"
MIB = 1 << 20


def zipped(body: bytes) -> bytes:
    return ZIPPED % (len(body), body)


def client(url: str, **more: Any) -> Api:  # noqa: ANN401 - fields of Access
    async def load() -> Access:
        return Access(url, **more)

    return Api(load)


@asynccontextmanager
async def asking(script: Script) -> AsyncIterator[tuple[Api, Scripted]]:
    async with scripted(script) as server, client(f"http://127.0.0.1:{server.port}") as api:
        yield api, server


def saying(*pieces: bytes) -> Script:
    """Return a script that answers each request with the same pieces, and stays connected."""

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


async def streamed(api: Api, idle: float = 5.0) -> list[bytes]:
    async with api.stream("/it", (), idle) as chunks:
        return [chunk async for chunk in chunks]


async def refused(api: Api) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await api.get("/it", (), 20.0)
    return caught.value


@pytest.mark.parametrize(
    ("answer", "reason", "after"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "disconnected", None),
        (OK[:-1], "disconnected", None),
        (OK[:20], "disconnected", None),
        (CHUNKED + b"5\r\n{}", "disconnected", None),
        (b"", "disconnected", None),
        (zipped(b"{}"), "disconnected", None),
        (LATE, "throttled", 60.0),
        (LATE.replace(b"60", b"20"), "throttled", 20.0),
    ],
    ids=["not HTTP", "cut", "cut head", "cut chunk", "nothing", "not gzip", "late", "at the end"],
)
async def test_a_failure_has_a_reason(
    answer: bytes, reason: str, after: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhook.kubeclient.client.monotonic", lambda: 0.0)
    async with asking(once(answer)) as (api, _):
        error = await refused(api)
    assert (error.reason, error.retry_after) == (reason, after)


async def test_a_throttled_request_is_sent_six_times() -> None:
    async with asking(saying(LATE.replace(b"60", b"0"))) as (api, server):
        assert (await refused(api)).reason == "throttled"
        assert server.asked == 6


async def test_a_body_that_was_cut_short_while_compressed_is_an_error() -> None:
    cut = gzip.compress(b'{"items": [%b]}' % b", ".join(b"%d" % each for each in range(9000)))
    async with asking(saying(zipped(cut[:9000]))) as (api, _):
        reads = UserReads(api)
        for reading in (api.read("/it", dict), api.find("/it", dict), reads.get("/it")):
            with pytest.raises(ApiError) as caught:
                await reading
            assert caught.value.reason == "garbled"
        assert await reads.items("things", "/it") is None


async def test_a_body_and_a_line_without_end_are_given_up() -> None:
    sent = 0

    async def script(visit: Visit) -> None:
        nonlocal sent
        await visit.request()
        visit.writer.write(CHUNKED)
        while True:
            visit.writer.write(b"%x\r\n%b\r\n" % (MIB, b"x" * MIB))
            await visit.writer.drain()
            sent += 1

    async with asking(script) as (api, _):
        error = await refused(api)
        assert error.reason == "large"
        assert str(error) == "the API server's response is larger than 64 MiB"
        assert sent < 80
        with pytest.raises(ApiError) as caught:
            await streamed(api)
        assert caught.value.reason == "garbled"


async def test_a_compressed_body_is_measured_when_it_is_decompressed() -> None:
    async with asking(saying(zipped(gzip.compress(b"x" * 65 * MIB)))) as (api, _):
        assert (await refused(api)).reason == "large"


async def written(api: Api, verb: str) -> None:
    if verb == "POST":
        await api.create("/it", {}, 5.0)
    elif verb == "PUT":
        await api.replace("/it", {"metadata": {"uid": "u", "resourceVersion": "7"}}, 5.0)
    elif verb == "DELETE":
        await api.delete("/it", "u", "7", 5.0)
    else:
        await api.patch("/it", [])


VERBS = ("POST", "PUT", "DELETE", "PATCH")


async def test_one_connection_serves_one_request_after_the_other() -> None:
    async with asking(saying(OK)) as (api, server):
        for verb in VERBS:
            await written(api, verb)
            assert await api.get("/it", (), 60.0) == b"{}"
        assert server.visits == 1


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("reset", [False, True])
async def test_a_write_is_sent_once_when_the_server_closes_instead(verb: str, reset: bool) -> None:
    bodies: list[bytes] = []

    async def script(visit: Visit) -> None:
        head = await visit.request()
        if head.startswith(b"GET"):
            await visit.say(OK)
            head = await visit.request()
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        bodies.append(await visit.reader.readexactly(length))  # and it is never answered
        if reset:
            visit.writer.transport.abort()

    async with asking(script) as (api, _):
        await api.get("/it", (), 60.0)
        with pytest.raises(ApiError) as caught:
            await written(api, verb)
        assert caught.value.reason == "disconnected"
    assert len(bodies) == 1
    if verb in {"PUT", "DELETE"}:
        sent = msgspec.json.decode(bodies[0])
        meta = sent.get("preconditions") or sent["metadata"]
        assert meta == {"uid": "u", "resourceVersion": "7"}


async def test_a_get_is_repeated_when_the_server_closes_a_connection() -> None:
    asked = 0

    async def script(visit: Visit) -> None:
        nonlocal asked
        for answer in (OK, b"") if not asked else (OK,):
            await visit.request()
            asked += 1
            await visit.say(answer)

    async with asking(script) as (api, _):
        for _ in range(2):
            assert await api.get("/it", (), 60.0) == b"{}"
    assert asked == 3


async def test_a_request_that_is_given_up_closes_its_connection() -> None:
    async with asking(saying(OK[:-1])) as (api, server):
        for _ in range(2):
            with pytest.raises(ApiError, match=r"sent nothing within 0\.05 s") as caught:
                await api.get("/it", (), 0.05)
            assert caught.value.reason == "timeout"
        await eventually(lambda: server.visits == 2)


async def test_a_stream_may_trickle_but_not_fall_silent() -> None:
    async def script(visit: Visit) -> None:
        await visit.request()
        await visit.say(CHUNKED)
        begun = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - begun < 2.4:
            await visit.say(b"2\r\nx\n\r\n")
            await asyncio.sleep(0.1)
        await asyncio.sleep(3600)

    begun = asyncio.get_running_loop().time()
    async with asking(script) as (api, _):
        with pytest.raises(ApiError, match=r"sent nothing for 2 s") as caught:
            await streamed(api, 2.0)
    assert caught.value.reason == "timeout"
    assert asyncio.get_running_loop().time() - begun > 2.0 + 2.0


async def test_others_have_their_turn_while_a_stream_is_ahead() -> None:
    many = b"".join(b"%x\r\n%b\r\n" % (1 << 15, b"x" * ((1 << 15) - 1) + b"\n") for _ in range(32))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with (
        asking(once(CHUNKED + many + b"0\r\n\r\n")) as (api, _),
        api.stream("/it", (), 5.0) as chunks,
    ):
        task = asyncio.create_task(other())
        # So the server has sent what the buffers between us take
        await eventually(lambda: turns >= 1000)
        turns = 0
        count = 0
        async for chunk in chunks:
            count += bool(chunk)
        task.cancel()
        assert count == 32
        assert turns >= count // 2 - 1


async def test_a_redirect_is_not_followed() -> None:
    async with asking(saying(OK)) as (_, other):
        there = b"HTTP/1.1 307 There\r\nLocation: http://127.0.0.1:%d/\r\n" % other.port
        async with asking(saying(there + b"Content-Length: 0\r\n\r\n")) as (api, _):
            with pytest.raises(ApiError, match="answered 307") as caught:
                await api.get("/it", (), 60.0)
            assert caught.value.reason == "status"
        assert other.visits == 0


# Servers, proxies and TLS


@pytest.mark.parametrize(
    ("path", "asked"), [("", ""), ("/", ""), ("/k8s/clusters/c-1/", "/k8s/clusters/c-1"),
                        ("/k\xfc be", "/k%C3%BC%20be")]
)  # fmt: skip
async def test_the_path_of_a_server_stands_before_that_of_a_request(path: str, asked: str) -> None:
    heads: list[bytes] = []

    async def script(visit: Visit) -> None:
        heads.append(await visit.request())
        await visit.say(OK)

    async with scripted(script) as server, client(f"http://127.0.0.1:{server.port}{path}") as api:
        await api.get("/a \xfc/%20\r\nX: y", [("limit", "1")])
    target = f"{asked}/a%20%C3%BC/%20X:%20y?limit=1"
    assert heads[0].startswith(f"GET {target} HTTP/1.1\r\n".encode())
    assert f"\r\nHost: 127.0.0.1:{server.port}\r\n".encode() in heads[0]


@pytest.mark.parametrize("url", [
    "kubernetes:6443", "ftp://a:secret@b", "https://", "https://a:b", "https://a..b",
    "https://a." + "b" * 64,
])  # fmt: skip
@pytest.mark.parametrize("which", ["url", "proxy"])
def test_what_is_no_server_of_http_is_refused(url: str, which: str) -> None:
    async def story() -> None:
        async with client(url) if which == "url" else client("https://it", proxy=url):
            pass

    with pytest.raises(ConfigurationError, match=r"is not a URL of http") as caught:
        asyncio.run(story())
    assert "secret" not in str(caught.value)


async def test_a_port_without_a_listener_is_named() -> None:
    async with scripted(once()) as server:
        port = server.port
    async with client(f"http://127.0.0.1:{port}") as api:
        with pytest.raises(ApiError, match=f"127.0.0.1:{port}: ") as caught:
            await api.get("/it", (), 60.0)
        assert caught.value.reason == "refused"


@pytest.mark.parametrize("proxy_speaks_tls", [False, True])
async def test_a_proxy_opens_a_tunnel_for_tls(pki: Path, proxy_speaks_tls: bool) -> None:
    asked: list[bytes] = []

    async def server(visit: Visit) -> None:
        asked.append(await visit.request())
        await visit.say(OK)

    async def proxy(visit: Visit) -> None:
        asked.append(await visit.request())
        port = int(asked[-1].split()[1].rpartition(b":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await visit.say(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.gather(passed(visit.reader, writer), passed(reader, visit.writer))
        finally:
            writer.close()

    outer = server_tls(pki) if proxy_speaks_tls else None
    async with scripted(server, server_tls(pki)) as behind, scripted(proxy, outer) as before:
        scheme = "https" if proxy_speaks_tls else "http"
        way = {
            "tls_name": "kubernetes",
            "proxy": f"{scheme}://it:s%40fe@127.0.0.1:{before.port}",
            "tls": lambda: ssl.create_default_context(cafile=str(pki / "ca.crt")),
        }
        async with client(f"https://127.0.0.1:{behind.port}", **way) as api:
            assert await api.get("/api/v1/pods", (), 5.0) == b"{}"
        assert (behind.visits, before.visits) == (1, 1)
        target = b"127.0.0.1:%d" % behind.port
        credentials = b"Proxy-Authorization: Basic %b" % b64encode(b"it:s@fe")
        assert asked[0].startswith(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n" % (target, target))
        assert credentials in asked[0]
        assert asked[1].startswith(b"GET /api/v1/pods HTTP/1.1\r\n")
        assert b"Proxy-" not in asked[1]


async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


@pytest.mark.parametrize(("said", "expected"), [
    (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407 Proxy Authentication"),
    (b"HTTP/1.1 502\r\n\r\n", "the proxy answers 502 .*to CONNECT"),
    (b"nonsense\r\n\r\n", "connection"), (b"", "connection"),
    (b"HTTP/1.1 200 and no more\r\n\r\n", "connection"),
    (b"x" * 40_000, "connection"),
])  # fmt: skip
async def test_a_proxy_that_opens_no_tunnel_is_a_failure(said: bytes, expected: str) -> None:
    async with scripted(once(said)) as before:
        there = f"http://127.0.0.1:{before.port}"
        async with client("https://kubernetes.invalid", proxy=there) as api:
            with pytest.raises(ApiError, match=expected) as caught:
                await api.get("/it", (), 60.0)
            assert caught.value.reason in {"refused", "disconnected"}
