"""Self-signed certificates: over years, with several replicas, and with concurrent edits."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from webhook.certs.context import CertificateError, read_validity
from webhook.certs.issue import CLOCK_SKEW, Pair, issue_authority, issue_server
from webhook.certs.self_signed import (
    PUBLISHED_FIRST,
    Holdings,
    SelfSigned,
    advance,
    write_holdings,
)
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.secrets import SecretStore

NAMES = ["ray-webhook.ray-webhook.svc", "ray-webhook.ray-webhook.svc.cluster.local"]
START = datetime(2026, 1, 1, tzinfo=UTC)


class MemorySecretStore(SecretStore):
    """A Secret and webhook configurations in memory, which refuses writes to an older version."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.version = 0
        self.bundle = b""
        self.writes = 0

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


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def replica(
    secret_store: MemorySecretStore, clock: Clock, ahead: timedelta = timedelta()
) -> SelfSigned:
    """Return the source of one replica, whose clock is ahead."""
    return SelfSigned(
        secret_store, NAMES, clock=lambda: clock() + ahead, timer=lambda: clock().timestamp()
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
    secret_store, clock = MemorySecretStore(), Clock()
    sources = [replica(secret_store, clock), replica(secret_store, clock)]
    authorities, leaves = set(), set()
    asyncio.run(sources[0].fetch())
    while clock.now < START + timedelta(days=12 * 365):
        for source in sources:
            before = secret_store.bundle
            pair = asyncio.run(source.fetch())
            assert trusted_by(before, pair, clock.now)
            assert trusted_by(secret_store.bundle, pair, clock.now)
            authorities.add(secret_store.data["ca.crt"])
            leaves.add(pair.certificate)
            clock.now += timedelta(minutes=1)
        clock.now += timedelta(days=7)
    assert len(authorities) == 2
    assert 60 < len(leaves) < 85
    assert secret_store.writes <= len(authorities) + len(leaves)


def test_a_new_authority_is_published_beside_the_old_one_before_it_signs() -> None:
    held = advance(None, NAMES, START)
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
    secret_store, clock = MemorySecretStore(), Clock()
    source, other = replica(secret_store, clock), replica(secret_store, clock, ahead)
    first = asyncio.run(source.fetch())
    clock.now = read_validity(secret_store.data["ca.crt"]).end - timedelta(days=100)
    data = secret_store.data = {**secret_store.data, "tls.crt": _worn(secret_store, clock.now)}
    asyncio.run(source.fetch())
    assert secret_store.data["ca.crt"] != data["ca.crt"]
    for minutes in range(20):
        clock.now += timedelta(minutes=1)
        if minutes == 6:  # a tool takes the bundle away, and it is published again
            secret_store.bundle = b""
        pair = asyncio.run(other.fetch())
        signed = pair.certificate != data["tls.crt"]
        assert signed is (minutes >= 16)
    assert trusted_by(secret_store.data["ca.crt"], pair, clock.now)
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
    secret_store, clock = MemorySecretStore(), Clock()
    source = replica(secret_store, clock)
    first = asyncio.run(source.fetch())
    clock.now += timedelta(days=20 * 365)
    again = asyncio.run(source.fetch())
    assert again != first
    assert trusted_by(secret_store.bundle, again, clock.now)


@pytest.mark.parametrize("days", [1, 59, 61, 400, 3000, 4000])
def test_what_a_process_issued_whose_clock_was_ahead_is_replaced(days: int) -> None:
    secret_store, clock = MemorySecretStore(), Clock()
    sources = [replica(secret_store, clock), replica(secret_store, clock)]
    before = asyncio.run(sources[0].fetch())
    fast = replica(secret_store, clock, timedelta(days=days))
    for turn in range(3):
        asyncio.run(fast.fetch())
        for source in sources:
            pair = asyncio.run(source.fetch())
            assert trusted_by(secret_store.bundle, pair, clock.now)
            if days < 4000 and not turn:
                assert trusted_by(secret_store.bundle, before, clock.now), (
                    "served until the next poll"
                )
        assert asyncio.run(sources[0].fetch()) == pair
        clock.now += timedelta(seconds=10)
    writes = secret_store.writes
    clock.now += timedelta(days=30)
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
    secret_store, clock = MemorySecretStore(), Clock()
    asyncio.run(replica(secret_store, clock, ahead).fetch())
    asyncio.run(replica(secret_store, clock).fetch())
    assert secret_store.writes == 1


def test_an_unreachable_vault_is_a_complaint_and_no_end() -> None:
    class Unreachable(MemorySecretStore):
        async def read(self) -> tuple[Mapping[str, bytes], str]:
            raise ApiError("unavailable", "refused")

    with pytest.raises(CertificateError, match="refused"):
        asyncio.run(replica(Unreachable(), Clock()).fetch())


@pytest.mark.parametrize(("data", "text"), [
    ({"password": b"x"}, r"no ca\.crt, ca\.key, tls\.crt, tls\.key"),
    (write_holdings(Holdings(Pair(b"x", b"x"), Pair(b"x", b"x"))), "no certificate in PEM"),
])  # fmt: skip
def test_a_secret_that_is_not_ours_is_not_overwritten(data: dict[str, bytes], text: str) -> None:
    secret_store, clock = MemorySecretStore(), Clock()
    secret_store.data = data
    with pytest.raises(CertificateError, match=text):
        asyncio.run(replica(secret_store, clock).fetch())
    assert secret_store.writes == 0
