"""Connections are opened: names, TLS and proxies."""

import asyncio
import ssl
from base64 import b64encode
from pathlib import Path

import pytest

from tests.follow.certificates import server_tls
from tests.follow.scripted import Visit, scripted
from webhook.follow.dialing import Dialer, Server, Unreachable, written
from webhook.follow.pool import Pool

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def trusting(pki: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(pki / "ca.crt"))


async def answered(server: Server, tls: ssl.SSLContext | None = None) -> bytes:
    """Return the body of a GET."""
    pool = Pool(server, tls or ssl.create_default_context())
    try:
        return (await pool.request("GET", "/api/v1/pods", b"")).body
    finally:
        await pool.close()


@pytest.mark.parametrize(
    ("url", "host", "prefix"),
    [
        ("https://kubernetes", "kubernetes", ""),
        ("https://kubernetes:6443/", "kubernetes:6443", ""),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", ""),
        ("https://rancher.example/k8s/clusters/c-1/", "rancher.example", "/k8s/clusters/c-1"),
        ("http://user:secret@127.0.0.1:8001", "127.0.0.1:8001", ""),
        ("https://K\xfcbe.example:6443/k\xfc be", "xn--kbe-hoa.example:6443", "/k%C3%BC%20be"),
    ],
)
def test_a_server_is_named_as_its_url_does(url: str, host: str, prefix: str) -> None:
    dialer = Dialer(Server(url), ssl.create_default_context())
    assert dialer.headers == {"Host": host}
    assert dialer.prefix == prefix


@pytest.mark.parametrize(
    "url",
    ["kubernetes:6443", "ftp://a:secret@b", "https://", "https://a:b", "https://a..b", "https://a."
     + "b" * 64],
)  # fmt: skip
@pytest.mark.parametrize("which", ["url", "proxy"])
def test_what_is_no_server_of_http_is_refused(url: str, which: str) -> None:
    server = Server(url) if which == "url" else Server("https://kubernetes", "", url)
    with pytest.raises(ValueError, match=r"no URL of http|Port") as caught:
        Dialer(server, ssl.create_default_context())
    assert "secret" not in str(caught.value)


def test_a_header_is_one_line() -> None:
    assert written({"a": "b", "c": "dé"}) == b"a: b\r\nc: d\xe9\r\n"
    for value in ("b\r\nHost: other", "b\n", "\x00"):
        with pytest.raises(ValueError, match="one line"):
            written({"a": value})


def test_nobody_listens() -> None:
    async def story() -> None:
        async with scripted(nothing) as server:
            port = server.port
        with pytest.raises(Unreachable, match=f"127.0.0.1:{port}: "):
            await answered(Server(f"http://127.0.0.1:{port}"))

    asyncio.run(story())


async def nothing(_: Visit) -> None:
    """Close the connection."""


def test_a_name_that_has_several_addresses_is_reached_by_one_that_answers() -> None:
    async def script(visit: Visit) -> None:
        await visit.request()
        await visit.say(OK)

    async def story() -> None:
        async with scripted(script) as server:  # which is not at ::1
            assert await answered(Server(f"http://localhost:{server.port}")) == b"{}"

    asyncio.run(story())


@pytest.mark.parametrize("proxy_speaks_tls", [False, True])
def test_a_proxy_opens_a_tunnel_for_tls(
    pki: Path,
    monkeypatch: pytest.MonkeyPatch,
    proxy_speaks_tls: bool,  # noqa: FBT001
) -> None:
    asked: list[bytes] = []
    monkeypatch.setenv("SSL_CERT_FILE", str(pki / "ca.crt"))  # which a proxy's TLS goes by

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

    async def story() -> None:
        outer = server_tls(pki) if proxy_speaks_tls else None
        async with (
            scripted(server, server_tls(pki)) as behind,
            scripted(proxy, outer) as before,
        ):
            scheme = "https" if proxy_speaks_tls else "http"
            way = Server(
                f"https://127.0.0.1:{behind.port}",
                "kubernetes",
                f"{scheme}://it:s%40fe@127.0.0.1:{before.port}",
                {"X-Team": "ray"},
            )
            assert await answered(way, trusting(pki)) == b"{}"
            assert (behind.visits, before.visits) == (1, 1)
            target = b"127.0.0.1:%d" % behind.port
            credentials = b64encode(b"it:s@fe")
            assert asked[0].splitlines() == [
                b"CONNECT %b HTTP/1.1" % target,
                b"Host: %b" % target,
                b"X-Team: ray",
                b"Proxy-Authorization: Basic %b" % credentials,
                b"",
            ]
            assert asked[1].startswith(b"GET /api/v1/pods HTTP/1.1\r\n")
            assert b"X-Team" not in asked[1]
            assert credentials not in asked[1]

    asyncio.run(story())


async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand bytes on until there are no more."""
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


def test_a_proxy_forwards_what_is_not_tls() -> None:
    asked: list[bytes] = []

    async def proxy(visit: Visit) -> None:
        asked.append(await visit.request())
        await visit.say(OK)

    async def story() -> None:
        async with scripted(proxy) as before:
            there = f"http://it:safe@127.0.0.1:{before.port}"
            assert await answered(Server("http://kubernetes.invalid/k8s", "", there)) == b"{}"
        assert asked[0].startswith(b"GET http://kubernetes.invalid/k8s/api/v1/pods HTTP/1.1\r\n")
        assert b"\r\nHost: kubernetes.invalid\r\n" in asked[0]
        assert b"\r\nProxy-Authorization: Basic aXQ6c2FmZQ==\r\n" in asked[0]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407 Proxy Authentication"),
        (b"HTTP/1.1 502\r\n\r\n", "answers 502 to CONNECT"),
        (b"nonsense\r\n\r\n", "answers nothing to CONNECT"),
        (b"", "does not answer in HTTP"),
        (b"HTTP/1.1 200 and no more\r\n\r\n", ": Connection"),
        (b"x" * 40_000, "does not answer in HTTP"),
    ],
)
def test_a_proxy_that_opens_no_tunnel_is_named(said: bytes, told: str) -> None:
    async def proxy(visit: Visit) -> None:
        await visit.request()
        await visit.say(said)

    async def story() -> None:
        async with scripted(proxy) as before:
            there = f"http://127.0.0.1:{before.port}"
            with pytest.raises(Unreachable, match=told) as caught:
                await answered(Server("https://kubernetes.invalid", "", there))
            assert str(caught.value).startswith(f"127.0.0.1:{before.port}: ")

    asyncio.run(story())
