"""Self-signed certificates in a Secret, over the Kubernetes API."""

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
import pytest

from tests.harness.following import client_of
from tests.harness.listener import ask, until
from tests.harness.registry import MUTATING, SECRET, VALIDATING, Registry, registry
from tests.harness.server import serving
from webhook.certs.context import CertificateError, read_validity
from webhook.certs.issue import Pair
from webhook.certs.self_signed import SelfSigned
from webhook.kubeclient.kubeconfig import kubeconfig
from webhook.kubeclient.secrets import SecretStore

T = TypeVar("T")

NAMES = ["ray-webhook.ray-webhook.svc", "ray-webhook.ray-webhook.svc.cluster.local"]


def with_vault(objects: Registry, directory: Path, act: Callable[[SecretStore], Awaitable[T]]) -> T:
    """Return what `act` does with a vault that is connected."""

    async def run() -> T:
        async with client_of(kubeconfig(str(objects.kubeconfig(directory)))) as api:
            return await act(SecretStore(api, "ray-webhook", "ray-webhook"))

    return asyncio.run(run())


def source(secret_store: SecretStore) -> SelfSigned:
    return SelfSigned(secret_store, NAMES)


def test_the_first_start_fills_the_secret_and_every_bundle_and_the_second_writes_nothing(
    tmp_path: Path,
) -> None:
    async def twice(secret_store: SecretStore) -> tuple[Pair, Pair]:
        return await source(secret_store).fetch(), await source(secret_store).fetch()

    with registry() as objects:
        first, second = with_vault(objects, tmp_path, twice)
        assert first == second
        data = objects.objects[SECRET]["data"]
        assert base64.b64decode(data["tls.crt"]) == first.certificate
        assert objects.bundles() == {data["ca.crt"]}
        assert objects.objects[MUTATING]["webhooks"][0]["sideEffects"] == "NoneOnDryRun"
        patched = [path for method, path in objects.requests if method == "PATCH"]
        assert sorted(patched) == sorted((SECRET, MUTATING, VALIDATING))


def test_replicas_agree_on_the_pair_of_the_first(tmp_path: Path) -> None:
    async def start(secret_store: SecretStore) -> list[Pair]:
        return await asyncio.gather(*(source(secret_store).fetch() for _ in range(5)))

    with registry() as objects:
        pairs = with_vault(objects, tmp_path, start)
        data = objects.objects[SECRET]["data"]
        assert {pair.certificate for pair in pairs} == {base64.b64decode(data["tls.crt"])}
        assert objects.bundles() == {data["ca.crt"]}


def test_two_processes_serve_with_the_certificate_that_one_of_them_made(tmp_path: Path) -> None:
    with registry() as objects:
        kubeconfig = str(objects.kubeconfig(tmp_path))
        flags = (
            *("--tls.source", "self-signed", "--kubeconfig", kubeconfig),
            *("--installation.namespace", "ray-webhook"),
        )
        with serving(tmp_path, [], *flags) as first, serving(tmp_path, [], *flags) as second:
            for server in (first, second):
                ready = partial(httpx.get, f"{server.admin}/readyz", timeout=60)
                until(lambda ready=ready: ready().is_success)  # type: ignore[misc]  # a default binds it
            (bundle,) = objects.bundles()
            trust = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
            ports = [urlsplit(server.url).port or 0 for server in (first, second)]
            numbers = {ask(port, trust, name=name)[0] for port in ports for name in NAMES}
        assert len(numbers) == 1
        assert [server.process.returncode for server in (first, second)] == [0, 0]


def test_a_secret_that_is_missing_is_named(tmp_path: Path) -> None:
    with registry() as objects:
        del objects.objects[SECRET]
        with pytest.raises(CertificateError, match=f"404: {SECRET} not found"):
            with_vault(objects, tmp_path, lambda secret_store: source(secret_store).fetch())


@pytest.mark.parametrize("absent", [[MUTATING], [VALIDATING], [MUTATING, VALIDATING]])
def test_the_pair_is_served_without_a_configuration_whose_bundle_is_written_when_it_appears(
    tmp_path: Path, absent: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(secret_store: SecretStore) -> list[Pair]:
        pairs = [await source(secret_store).fetch(), await source(secret_store).fetch()]
        for path in absent:
            objects.put(path, kept[path])
        return [*pairs, await source(secret_store).fetch()]

    with registry() as objects:
        kept = {path: objects.objects.pop(path) for path in absent}
        pairs = with_vault(objects, tmp_path, story)
        data = objects.objects[SECRET]["data"]
        assert {pair.certificate for pair in pairs} == {base64.b64decode(data["tls.crt"])}
        assert objects.bundles() == {data["ca.crt"]}
    missing = [text for text in caplog.messages if "does not exist" in text]
    assert [text.partition(" does")[0] for text in missing] == [
        " ".join(path.split("/")[-2:]) for path in absent
    ]


def test_certificates_are_dated_by_the_api_server(tmp_path: Path) -> None:
    with registry() as objects:
        objects.date = "Tue, 24 Nov 2020 10:00:00 GMT"
        pair = with_vault(objects, tmp_path, lambda secret_store: source(secret_store).fetch())
    assert f"{read_validity(pair.certificate).start:%Y-%m-%d}" == "2020-11-24"
