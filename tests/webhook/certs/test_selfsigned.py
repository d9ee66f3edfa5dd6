"""Self-signed certificates: over years, with several replicas and concurrent edits, and over the
Kubernetes API.
"""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from tests.harness import fake_api
from tests.harness.fake_api import CONFIGURATIONS, SECRETS, VALIDATING, FakeApi, Object
from tests.harness.following import client_of, plain
from tests.harness.listener import ask, until
from tests.harness.served import kubeconfig, serving_cluster
from tests.harness.server import serving
from webhook.certs.context import CertificateError, read_validity
from webhook.certs.issue import CLOCK_SKEW, Pair, issue_authority, issue_server
from webhook.certs.self_signed import PUBLISHED_FIRST, Holdings, SelfSigned, advance, write_holdings
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.secrets import SecretStore

NAME = "ray-webhook"
NAMES = ["ray-webhook.ray-webhook.svc", "ray-webhook.ray-webhook.svc.cluster.local"]
START = datetime(2026, 1, 1, tzinfo=UTC)


class MemorySecretStore(SecretStore):
    """A Secret and webhook configurations in memory, which refuses writes to an older version,
    and a clock that is moved by hand.
    """

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.version = 0
        self.bundle = b""
        self.writes = 0
        self.time = START

    async def read(self) -> tuple[Mapping[str, bytes], str]:
        """Return the data, after others had a turn."""
        found = dict(self.data), str(self.version)
        await asyncio.sleep(0)
        return found

    async def write(self, data: Mapping[str, bytes], version: str) -> bool:
        await asyncio.sleep(0)
        if version != str(self.version):
            return False
        self.data, self.version, self.writes = dict(data), self.version + 1, self.writes + 1
        return True

    async def publish(self, bundle: bytes) -> bool:
        replaced, self.bundle = self.bundle, bundle
        return replaced == bundle


def replica(secret_store: MemorySecretStore, ahead: timedelta = timedelta()) -> SelfSigned:
    """Return the source of one replica, whose clock is ahead."""
    return SelfSigned(
        secret_store,
        NAMES,
        clock=lambda: secret_store.time + ahead,
        timer=lambda: (secret_store.time - START) / timedelta(seconds=1),
    )


def trusted_by(bundle: bytes, pair: Pair, now: datetime) -> bool:
    """Return whether a client that trusts `bundle` accepts the pair at `now`."""
    authorities = Store(x509.load_pem_x509_certificates(bundle))
    policy = PolicyBuilder().store(authorities).time(now)
    leaf = x509.load_pem_x509_certificate(pair.certificate)
    with suppress(VerificationError):
        return bool(policy.build_server_verifier(x509.DNSName(NAMES[0])).verify(leaf, []))
    return False


def test_over_twelve_years_every_pair_is_trusted_by_the_bundle_of_a_minute_before() -> None:
    secret_store = MemorySecretStore()
    sources = [replica(secret_store), replica(secret_store)]
    authorities, leaves = set(), set()
    asyncio.run(sources[0].fetch())
    while secret_store.time < START + timedelta(days=12 * 365):
        for source in sources:
            before = secret_store.bundle
            pair = asyncio.run(source.fetch())
            assert trusted_by(before, pair, secret_store.time)
            assert trusted_by(secret_store.bundle, pair, secret_store.time)
            authorities.add(secret_store.data["ca.crt"])
            leaves.add(pair.certificate)
            secret_store.time += timedelta(minutes=1)
        secret_store.time += timedelta(days=7)
    assert len(authorities) == 2
    assert 60 < len(leaves) < 85
    assert secret_store.writes <= len(authorities) + len(leaves)


def test_a_new_authority_is_published_beside_the_old_one_before_it_signs() -> None:
    held = advance(None, NAMES, START)
    assert read_validity(held.server.certificate).end == START + timedelta(days=90)
    assert read_validity(held.authority.certificate).end == START + timedelta(days=3650)
    late = read_validity(held.authority.certificate).end - timedelta(days=100)
    renewed = advance(held, NAMES, late)
    assert renewed.bundle == renewed.authority.certificate + held.authority.certificate
    lasting = renewed._replace(
        server=issue_server(held.authority, NAMES, 90, late - timedelta(days=80))
    )
    soonest = late + PUBLISHED_FIRST
    assert advance(lasting, NAMES, late, PUBLISHED_FIRST - timedelta(seconds=1)) == lasting
    signed = advance(lasting, NAMES, soonest, PUBLISHED_FIRST)
    assert signed.server != lasting.server
    assert trusted_by(signed.authority.certificate, signed.server, soonest)


@pytest.mark.parametrize("ahead", [timedelta(), timedelta(minutes=5), timedelta(minutes=-5)])
def test_the_first_leaf_of_a_new_authority_waits_for_its_bundle(ahead: timedelta) -> None:
    secret_store = MemorySecretStore()
    source, other = replica(secret_store), replica(secret_store, ahead)
    first = asyncio.run(source.fetch())
    secret_store.time = read_validity(secret_store.data["ca.crt"]).end - timedelta(days=100)
    data = secret_store.data = {
        **secret_store.data,
        "tls.crt": _worn(secret_store, secret_store.time),
    }
    asyncio.run(source.fetch())
    assert secret_store.data["ca.crt"] != data["ca.crt"]
    for minutes in range(20):
        secret_store.time += timedelta(minutes=1)
        if minutes == 6:  # a tool takes the bundle away, and it is published again
            secret_store.bundle = b""
        pair = asyncio.run(other.fetch())
        signed = pair.certificate != data["tls.crt"]
        assert signed is (minutes >= 16)
    assert trusted_by(secret_store.data["ca.crt"], pair, secret_store.time)
    assert pair != first


def _worn(secret_store: MemorySecretStore, now: datetime) -> bytes:
    """Return a leaf of the authority in the Secret that is due for renewal."""
    authority = Pair(secret_store.data["ca.crt"], secret_store.data["ca.key"])
    return issue_server(authority, NAMES, 90, now - timedelta(days=80)).certificate


@pytest.mark.parametrize(("issued", "fine"), [
    (timedelta(days=-1), False), (timedelta(days=-1, seconds=1), True),
    (2 * CLOCK_SKEW, True), (2 * CLOCK_SKEW + timedelta(seconds=1), False),
])  # fmt: skip
def test_the_old_authority_is_in_the_bundle_while_valid(issued: timedelta, fine: bool) -> None:
    old = issue_authority("old", 1, START + issued).certificate
    held = advance(None, NAMES, START)._replace(previous=old)
    assert advance(held, NAMES, START).previous == (old if fine else b"")


def test_a_leaf_for_other_names_is_replaced_at_once() -> None:
    held = advance(None, ["old.ray-webhook.svc"], START)
    moved = advance(held, NAMES, START)
    assert moved.authority == held.authority
    assert moved.server != held.server
    assert advance(moved, NAMES, START) == moved


def test_after_a_long_sleep_everything_is_issued_afresh() -> None:
    secret_store = MemorySecretStore()
    source = replica(secret_store)
    first = asyncio.run(source.fetch())
    secret_store.time += timedelta(days=20 * 365)
    again = asyncio.run(source.fetch())
    assert again != first
    assert trusted_by(secret_store.bundle, again, secret_store.time)


@pytest.mark.parametrize("days", [1, 59, 61, 400, 3000, 4000])
def test_what_a_process_issued_whose_clock_was_ahead_is_replaced(days: int) -> None:
    secret_store = MemorySecretStore()
    sources = [replica(secret_store), replica(secret_store)]
    before = asyncio.run(sources[0].fetch())
    fast = replica(secret_store, timedelta(days=days))
    for turn in range(3):
        asyncio.run(fast.fetch())
        for source in sources:
            pair = asyncio.run(source.fetch())
            assert trusted_by(secret_store.bundle, pair, secret_store.time)
            if days < 4000 and not turn:
                assert trusted_by(secret_store.bundle, before, secret_store.time), (
                    "served until the next poll"
                )
        assert asyncio.run(sources[0].fetch()) == pair
        secret_store.time += timedelta(seconds=10)
    writes = secret_store.writes
    secret_store.time += timedelta(days=30)
    assert asyncio.run(sources[0].fetch()) == pair
    assert secret_store.writes == writes


def test_an_authority_whose_start_is_after_now_is_replaced_with_its_leaf() -> None:
    held = advance(None, NAMES, START + timedelta(days=400))
    renewed = advance(held, NAMES, START)
    assert renewed.bundle == renewed.authority.certificate
    assert trusted_by(renewed.bundle, renewed.server, START)
    assert advance(renewed, NAMES, START) == renewed


@pytest.mark.parametrize("ahead", [timedelta(minutes=9), timedelta(minutes=-9)])
def test_processes_whose_clocks_differ_little_replace_nothing(ahead: timedelta) -> None:
    secret_store = MemorySecretStore()
    asyncio.run(replica(secret_store, ahead).fetch())
    asyncio.run(replica(secret_store).fetch())
    assert secret_store.writes == 1


def test_an_unreachable_vault_is_a_complaint_and_no_end() -> None:
    class Unreachable(MemorySecretStore):
        async def read(self) -> tuple[Mapping[str, bytes], str]:
            raise ApiError("unavailable", "refused")

    with pytest.raises(CertificateError, match="refused"):
        asyncio.run(replica(Unreachable()).fetch())


@pytest.mark.parametrize(("data", "text"), [
    ({"password": b"x"}, r"no ca\.crt, ca\.key, tls\.crt, tls\.key"),
    (write_holdings(Holdings(Pair(b"x", b"x"), Pair(b"x", b"x"))), "no certificate in PEM"),
])  # fmt: skip
def test_a_secret_that_is_not_ours_is_not_overwritten(data: dict[str, bytes], text: str) -> None:
    secret_store = MemorySecretStore()
    secret_store.data = data
    with pytest.raises(CertificateError, match=text):
        asyncio.run(replica(secret_store).fetch())
    assert secret_store.writes == 0


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
    with serving_cluster() as cluster:
        cluster.portal.call(store, cluster.api)
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
