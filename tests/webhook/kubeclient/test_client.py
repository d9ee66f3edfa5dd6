"""The connection: changing credentials, certificates, and names of failures."""

import asyncio
import base64
import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.harness.fake_api import FakeApi
from tests.harness.following import QUICK, eventually, plain
from tests.webhook.kubeclient.scripted import Visit, scripted, server_tls
from webhook.cache.informer import ListWatch
from webhook.cache.serve_stores import PodStore, pods_in
from webhook.groups.identity_index import Membership
from webhook.kubeclient.access import Access, Load, in_cluster
from webhook.kubeclient.client import Api
from webhook.kubeclient.errors import ApiError, ConfigurationError
from webhook.kubeclient.kubeconfig import kubeconfig


def write_kubeconfig(
    path: Path,
    server: str,
    user: Mapping[str, object],
    pki: Path | None = None,
    cluster: Mapping[str, str] | None = None,
) -> str:
    config = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{
            "name": "it",
            "cluster": {
                "server": server, **({"certificate-authority": str(pki / "ca.crt")} if pki else {}),
                **(cluster or {})}}],
        "users": [{"name": "it", "user": user}]}  # fmt: skip
    path.write_text(yaml.safe_dump(config))
    return str(path)


def in_pod(api: FakeApi, token: Path, authority: Path) -> Load:
    where = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api.port)}
    return in_cluster(str(token), str(authority), where)


async def test_kubeconfigs_with_certificate_or_token_file_work(pki: Path, tmp_path: Path) -> None:
    async with FakeApi().serving(server_tls(pki, clients=True)) as fake:
        data = base64.b64encode((pki / "client.key").read_bytes()).decode()
        user = {"client-certificate": str(pki / "client.crt"), "client-key-data": data}
        path = write_kubeconfig(tmp_path / "certs", fake.url, user, pki)
        async with Api(kubeconfig(path)) as api:
            assert await api.get("/api/v1/pods", [], 5.0)
    token = tmp_path / "token"
    token.write_text("first\n")
    async with FakeApi(accepts="Bearer first").serving(server_tls(pki)) as fake:
        user = {"tokenFile": str(token)}
        path = write_kubeconfig(tmp_path / "token-file", fake.url, user, pki)
        async with Api(kubeconfig(path)) as api:
            assert await api.get("/api/v1/pods", [], 5.0)
            token.write_text("second")
            fake.accepts = "Bearer second"
            assert await api.get("/api/v1/pods", [], 5.0)


@pytest.mark.parametrize(("name", "trusted"), [("kubernetes", True), ("elsewhere", False)])
async def test_a_server_may_be_named(pki: Path, tmp_path: Path, name: str, trusted: bool) -> None:
    async with FakeApi().serving(server_tls(pki)) as fake:
        named = {"tls-server-name": name}
        path = write_kubeconfig(tmp_path / "config", fake.url, {}, pki, named)
        async with Api(kubeconfig(path)) as api:
            with nullcontext() if trusted else pytest.raises(ApiError) as caught:
                await api.get("/api/v1/pods", [], 60.0)
        if caught is not None:
            assert caught.value.reason == "tls"
            assert "certificate verify failed" in str(caught.value)
        assert bool(fake.requests) is trusted


async def test_a_new_authority(pki: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    token, bundle = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("it")

    def write(name: str) -> None:
        """As the kubelet does: the file is another one."""
        new = tmp_path / "new"
        new.write_bytes((pki / name).read_bytes() if name else b"-----BEGIN")
        new.replace(bundle)

    async def asked(api: Api) -> str:
        try:
            await api.get("/api/v1/pods", [], 5.0)
        except ApiError as error:
            return error.reason
        return ""

    fake = FakeApi()
    write("ca.crt")
    async with AsyncExitStack() as stack:
        async with fake.serving(server_tls(pki)):
            api = await stack.enter_async_context(Api(in_pod(fake, token, bundle)))
            assert await asked(api) == ""
            write("")  # which is no bundle, so the one from before counts
            assert await asked(api) == ""
            assert await asked(api) == ""
            assert caplog.text.count("the previous stay in use") == 1
        async with fake.serving(server_tls(pki, "other-server")):
            write("ca.crt")
            assert await asked(api) == "tls"
            write("other-ca.crt")
            assert await asked(api) == ""
            write("ca.crt")  # and a connection that is open is not trusted for what it was
            assert await asked(api) == "tls"
            bundle.unlink()
            assert await asked(api) == "tls"


@pytest.mark.parametrize(("url", "user", "sent"), [
    ("it:s%40fe@", {}, "Basic " + base64.b64encode(b"it:s@fe").decode()),
    ("it@", {}, "Basic " + base64.b64encode(b"it:").decode()),
    ("it:s%40fe@", {"token": "own"}, "Bearer own"),
    ("", {"username": "it", "password": "safe"}, "Basic " + base64.b64encode(b"it:safe").decode()),
])  # fmt: skip
async def test_user_and_password_are_sent_where_there_is_no_token(
    tmp_path: Path, url: str, user: dict[str, str], sent: str
) -> None:
    async with FakeApi(accepts=sent).serving() as fake:
        server = f"http://{url}127.0.0.1:{fake.port}"
        async with Api(kubeconfig(write_kubeconfig(tmp_path / "config", server, user))) as api:
            await api.get("/api/v1/pods", [], 60.0)


PLUGIN = (
    """echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential","""
    """ "status": {"TOKEN": "old"}}'"""
)
"""A command that prints a credential."""


@pytest.mark.parametrize(("script", "expected"), [
    ("echo no ticket >&2; exit 3", "exec plugin .* returned 3.*no ticket"),
    ("echo nonsense", "exec plugin .* failed to decode"),
    (PLUGIN.replace("TOKEN", "other"), "exec plugin .* missing token"),
])  # fmt: skip
@pytest.mark.parametrize("late", [False, True])
def test_an_exec_plugin_that_fails_is_named(
    tmp_path: Path, script: str, expected: str, late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    plugin, path = tmp_path / "plugin", tmp_path / "config"
    user = {"command": str(plugin), "apiVersion": "client.authentication.k8s.io/v1"}

    def write(command: str) -> None:
        plugin.write_text(f"#!/bin/sh\n{command}\n")
        plugin.chmod(0o755)

    async def story() -> None:
        async with FakeApi(accepts="Bearer new").serving() as fake:
            write(PLUGIN.replace("TOKEN", "token") if late else script)
            async with Api(kubeconfig(write_kubeconfig(path, fake.url, {"exec": user}))) as api:
                write(script)
                await api.get("/api/v1/pods", [], 5.0)

    with pytest.raises(ApiError if late else ConfigurationError, match=expected):
        asyncio.run(story())
    assert not caplog.records


NASTY = "\x1b[31mall\x07 is\x9b well\u202e\r\nINFO: it\x00"


async def test_words_of_a_server_lose_control_characters(caplog: pytest.LogCaptureFixture) -> None:
    refusal = msgspec.json.encode({"message": NASTY})
    empty = msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": []})
    event = msgspec.json.encode({"type": "ERROR", "object": {"code": 500, "message": NASTY}})
    said = [
        b"HTTP/1.1 500 It\r\nContent-Length: %d\r\n\r\n%b" % (len(refusal), refusal),
        b"HTTP/1.1 500 It\r\nContent-Length: %d\r\n\r\n%b" % (8, b"\x1b[31mall\x07"[:8]),
        b"\x1b[31mHTTP\x07\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(empty), empty),
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b\n" % (len(event) + 1, event),
    ]

    async def script(visit: Visit) -> None:
        await visit.request()
        await visit.say(said.pop(0))

    async with scripted(script) as server:

        async def load() -> Access:
            return Access(f"http://127.0.0.1:{server.port}")

        async with Api(load) as api:
            for _ in range(3):
                with pytest.raises(ApiError) as caught:
                    await api.create("/it", {}, 5.0)
                assert str(caught.value).isprintable()
            watch = ListWatch(api, pods_in(""), PodStore(Membership()), QUICK)
            task = asyncio.create_task(watch.run())
            await eventually(lambda: watch.counters.errors.get("server"))
            task.cancel()
            await asyncio.wait([task])
    lines = [record.getMessage() for record in caplog.records]
    assert any("all" in line for line in lines)
    assert all(line.isprintable() for line in lines)


async def test_an_api_that_was_not_opened_says_so() -> None:
    with pytest.raises(ApiError, match="not open"):
        await Api(in_cluster()).get("/api/v1/pods", [], 60.0)


@pytest.mark.parametrize("scheme", ["http://", ""])
@pytest.mark.parametrize(("exempt", "through"), [
    ("", True), ("127.0.0.1", False), ("svc.cluster.local, 127.0.0.0/8", False),
    ("10.96.0.0/12,fd00::/8", True), ("127.0.0.1/8", False),
])  # fmt: skip
async def test_a_proxy_of_the_environment_is_used_but_for_exempt_hosts(
    monkeypatch: pytest.MonkeyPatch, exempt: str, through: bool, scheme: str
) -> None:
    asked: list[bytes] = []

    async def proxy(visit: Visit) -> None:
        asked.append((await visit.request()).split()[1])
        await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with scripted(proxy) as server, FakeApi().serving() as fake:
        monkeypatch.setenv("http_proxy", f"{scheme}127.0.0.1:{server.port}")
        monkeypatch.setenv("no_proxy", exempt)
        async with Api(plain(fake)) as api:
            await api.get("/api/v1/pods", [], 60.0)
        assert bool(fake.requests) is not through
        assert asked == ([f"{fake.url}/api/v1/pods".encode()] if through else [])


async def test_a_proxy_survives_a_renewal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers = [b"401 Unauthorized", b"200 OK", b"200 OK"]

    async def proxy(visit: Visit) -> None:
        await visit.request()
        await visit.say(b"HTTP/1.1 %b\r\nContent-Length: 2\r\n\r\n{}" % answers.pop(0))

    empty = {"proxy-url": ""}  # as a template may leave it
    server = "http://kubernetes.invalid"
    path = write_kubeconfig(tmp_path / "config", server, {"token": "it"}, cluster=empty)
    async with scripted(proxy) as listener:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{listener.port}")
        monkeypatch.setenv("no_proxy", "")
        async with Api(kubeconfig(path)) as api:
            for _ in range(2):
                assert await api.get("/api/v1/pods", [], 60.0) == b"{}"
        assert not answers


async def test_in_a_pod_a_changed_token_is_read_again(pki: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("it")
    async with (
        FakeApi(accepts="Bearer it").serving(server_tls(pki)) as fake,
        Api(in_pod(fake, token, pki / "ca.crt")) as api,
    ):
        for write in (lambda: token.write_text(" "), token.unlink):
            write()  # which is no token, so the one from before counts
            assert await api.get("/api/v1/pods", [], 60.0)
        fake.accepts = "Bearer second"
        with pytest.raises(ApiError, match=r"cannot be loaded again: .*No such file") as caught:
            await api.get("/api/v1/pods", [], 60.0)
        assert caught.value.reason == "unauthorized"
        token.write_text("second")
        assert await api.get("/api/v1/pods", [], 60.0)
    assert len(fake.requests) == 4


async def test_a_kubeconfig_outlives_the_file_of_its_authority(pki: Path, tmp_path: Path) -> None:
    async with FakeApi().serving(server_tls(pki)) as fake:
        data = base64.b64encode((pki / "ca.crt").read_bytes()).decode()
        named = {"certificate-authority-data": data}
        load = kubeconfig(write_kubeconfig(tmp_path / "config", fake.url, {}, cluster=named))
        async with Api(load) as api:
            (path,) = (await load()).files
            file = tmp_path / path  # which is absolute
            file.unlink()
            for _ in range(2):
                assert await api.get("/api/v1/pods", [], 60.0)


async def test_a_refusal_of_the_credentials_creates_no_other_tls_context(pki: Path) -> None:
    contexts: list[ssl.SSLContext] = []

    def tls() -> ssl.SSLContext:
        contexts.append(ssl.create_default_context(cafile=str(pki / "ca.crt")))
        return contexts[-1]

    async with FakeApi(accepts="Bearer it").serving(server_tls(pki)) as fake:

        async def load() -> Access:
            return Access(f"https://127.0.0.1:{fake.port}", tls, files=(str(pki / "ca.crt"),))

        async with Api(load) as api:
            for _ in range(3):
                with pytest.raises(ApiError, match="401"):
                    await api.get("/api/v1/pods", [], 5.0)
    assert len(fake.requests) == 6
    assert len(contexts) == 1


async def test_an_api_that_is_closed_while_credentials_are_renewed_stays_closed() -> None:
    renewing, go = asyncio.Event(), asyncio.Event()

    async with FakeApi(accepts="Bearer it").serving() as fake:

        async def load() -> Access:
            if fake.requests:
                renewing.set()
                await go.wait()
            return await plain(fake)()

        async with Api(load) as api:
            asking = asyncio.create_task(api.get("/api/v1/pods", [], 5.0))
            await renewing.wait()
            asked = len(fake.requests)
        go.set()
        with pytest.raises(ApiError) as caught:
            await asking
        assert caught.value.reason == "closed"
        assert len(fake.requests) == asked
