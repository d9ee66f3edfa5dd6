"""Self-signed certificates in a Secret, over the Kubernetes API."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.harness import fake_api
from tests.harness.api_thread import Cluster
from tests.harness.fake_api import CONFIGURATIONS, SECRETS, VALIDATING, FakeApi, Object
from tests.harness.following import client_of, plain
from tests.harness.listener import ask, until
from tests.harness.served import kubeconfig
from tests.harness.server import serving
from webhook.certs.context import CertificateError, read_validity
from webhook.certs.issue import Pair
from webhook.certs.self_signed import SelfSigned
from webhook.kubeclient.secrets import SecretStore

NAME = "ray-webhook"
NAMES = ["ray-webhook.ray-webhook.svc", "ray-webhook.ray-webhook.svc.cluster.local"]


def store(api: FakeApi) -> None:
    """Store an installation: its Secret without data, and its webhook configurations."""
    mutating: list[Object] = [
        {"name": name, "clientConfig": {}, "sideEffects": "NoneOnDryRun"}
        for name in ("pods", "shards")
    ]
    validating = [{"name": name, "clientConfig": {"caBundle": "b2xk"}} for name in ("a", "b")]
    api.put(SECRETS, {"metadata": {"name": f"{NAME}-tls", "namespace": NAME}, "data": None})
    for resource, webhooks in ((CONFIGURATIONS, mutating), (VALIDATING, validating)):
        api.put(resource, {"metadata": {"name": NAME}, "webhooks": webhooks})


def data_of(api: FakeApi) -> dict[str, str]:
    """Return the data of the Secret, whose authority is in every webhook configuration."""
    data: dict[str, str] = api.objects(SECRETS)[f"{NAME}-tls"]["data"]
    assert bundles_of(api) == {data["ca.crt"]}
    return data


def bundles_of(api: FakeApi) -> set[str]:
    return {
        webhook["clientConfig"].get("caBundle", "")
        for resource in (CONFIGURATIONS, VALIDATING)
        for configuration in api.objects(resource).values()
        for webhook in configuration["webhooks"]
    }


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi().serving() as serving:
        store(serving)
        yield serving


@asynccontextmanager
async def vault(api: FakeApi) -> AsyncIterator[Callable[[], Awaitable[Pair]]]:
    """Yield a function that fetches the pair as a process that has just started."""
    async with client_of(plain(api)) as client:
        secret_store = SecretStore(client, NAME, NAME)
        yield lambda: SelfSigned(secret_store, NAMES).fetch()


async def test_the_first_start_fills_the_secret_and_every_bundle_and_the_second_writes_nothing(
    api: FakeApi,
) -> None:
    async with vault(api) as fetch:
        first = await fetch()
        assert await fetch() == first
    assert base64.b64decode(data_of(api)["tls.crt"]) == first.certificate
    webhooks = api.objects(CONFIGURATIONS)[NAME]["webhooks"]
    assert webhooks[0]["sideEffects"] == "NoneOnDryRun"
    patched = [request.resource for request in api.requests if request.verb == "patch"]
    assert sorted(patched) == sorted((SECRETS, CONFIGURATIONS, VALIDATING))


async def test_replicas_agree_on_the_pair_of_the_first(api: FakeApi) -> None:
    async with vault(api) as fetch:
        pairs = await asyncio.gather(*(fetch() for _ in range(5)))
    assert {pair.certificate for pair in pairs} == {base64.b64decode(data_of(api)["tls.crt"])}


def test_two_processes_serve_with_the_certificate_that_one_of_them_made(tmp_path: Path) -> None:
    with Cluster().serving() as cluster:
        cluster.done(lambda: store(cluster.api))
        flags = (
            *("--tls.source", "self-signed", "--installation.namespace", "ray-webhook"),
            *("--kubeconfig", str(kubeconfig(tmp_path, cluster.api.port))),
        )
        with serving(tmp_path, [], *flags) as first, serving(tmp_path, [], *flags) as second:
            for server in (first, second):
                ready = partial(httpx.get, f"{server.admin}/readyz", timeout=60)
                until(lambda ready=ready: ready().is_success)  # type: ignore[misc]  # a default binds it
            (bundle,) = bundles_of(cluster.api)
            trust = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
            ports = [urlsplit(server.url).port or 0 for server in (first, second)]
            numbers = {ask(port, trust, name=name)[0] for port in ports for name in NAMES}
        assert len(numbers) == 1
        assert [server.process.returncode for server in (first, second)] == [0, 0]


async def test_a_secret_that_is_missing_is_named(api: FakeApi) -> None:
    api.delete(SECRETS, f"{NAME}-tls", NAME)
    path = "/api/v1/namespaces/ray-webhook/secrets/ray-webhook-tls"
    with pytest.raises(CertificateError, match=f"404: {path} "):
        async with vault(api) as fetch:
            await fetch()


@pytest.mark.parametrize("absent", [[CONFIGURATIONS], [VALIDATING], [CONFIGURATIONS, VALIDATING]])
async def test_the_pair_is_served_without_a_configuration_whose_bundle_is_written_when_it_appears(
    api: FakeApi, absent: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    removed = {resource: api.objects(resource)[NAME] for resource in absent}
    for resource in absent:
        api.delete(resource, NAME, "")
    async with vault(api) as fetch:
        pairs = [await fetch(), await fetch()]
        for resource, configuration in removed.items():
            api.put(resource, configuration)
        pairs.append(await fetch())
    assert {pair.certificate for pair in pairs} == {base64.b64decode(data_of(api)["tls.crt"])}
    missing = [text for text in caplog.messages if "does not exist" in text]
    assert [text.partition(" does")[0] for text in missing] == [f"{each} {NAME}" for each in absent]


async def test_certificates_are_dated_by_the_api_server(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    date = "Tue, 24 Nov 2020 10:00:00 GMT"
    monkeypatch.setattr(fake_api, "formatdate", lambda **_: date)
    async with vault(api) as fetch:
        pair = await fetch()
    assert f"{read_validity(pair.certificate).start:%Y-%m-%d}" == "2020-11-24"
