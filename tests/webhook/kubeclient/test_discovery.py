"""Discovery: the resources that the API server serves, and no change during an outage."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.harness.fake_api import FakeApi
from tests.harness.following import beside, client_of, eventually, plain
from webhook.kubeclient.discovery import Discovery, KubernetesRelease, PodGroupsServed

OFTEN = 0.02


class Asking:
    """A discovery that runs, and what it told."""

    def __init__(self, discovery: Discovery[str]) -> None:
        self.discovery = discovery
        self.reported: list[str | None] = []
        discovery.subscribe(self.reported.append)


@asynccontextmanager
async def asking(api: FakeApi) -> AsyncIterator[Asking]:
    """Ask a fake API server, until the end of the block."""
    async with client_of(plain(api)) as connection:
        found = Asking(Discovery(PodGroupsServed(connection), OFTEN))
        async with beside(found.discovery.run()):
            yield found


@pytest.mark.parametrize(("served", "found"), [
    ({"v1beta1", "v1alpha2"}, "v1beta1"), ({"v1beta1"}, "v1beta1"), ({"v1alpha2"}, "v1alpha2"),
    ({"v1", "v1beta1"}, "v1"), ({"v1alpha3"}, None), (set(), None),
])  # fmt: skip
async def test_the_best_version_is_given(api: FakeApi, served: set[str], found: str | None) -> None:
    api.served = served
    async with asking(api) as asked:
        await eventually(lambda: api.requests and len(api.requests) > 6)
        assert asked.reported == [found]
        assert (asked.discovery.answered, asked.discovery.found) == (True, found)


async def test_a_late_subscriber_is_notified_too(api: FakeApi) -> None:
    api.served = {"v1beta1"}
    async with asking(api) as asked:
        await eventually(lambda: asked.reported)
        late: list[str | None] = []
        asked.discovery.subscribe(late.append)
        assert late == ["v1beta1"]


async def test_upgrade_and_gate_are_noticed(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "webhook.kubeclient")
    api.served = {"v1alpha2"}
    async with asking(api) as asked:
        await eventually(lambda: asked.reported == ["v1alpha2"])
        api.served = {"v1beta1"}
        await eventually(lambda: asked.reported == ["v1alpha2", "v1beta1"])
        api.served = set()
        await eventually(lambda: asked.reported == ["v1alpha2", "v1beta1", None])
    assert [record.getMessage() for record in caplog.records] == [
        "scheduling.k8s.io/v1alpha2 is served by the API server",
        "scheduling.k8s.io/v1beta1 is served by the API server, which is new",
        "PodGroups are not served by the API server, which is new",
    ]


async def test_an_outage_keeps_the_answer(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    api.served = {"v1beta1"}
    async with asking(api) as asked:
        await eventually(lambda: asked.reported)
        api.before = lambda _: 500
        seen = len(api.requests)
        await eventually(lambda: len(api.requests) > seen + 4)
        assert asked.discovery.found == "v1beta1"
        api.before = lambda _: 0
        seen = len(api.requests)
        await eventually(lambda: len(api.requests) > seen + 2)
        assert asked.reported == ["v1beta1"]
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


async def test_before_the_first_answer_nothing_is_known(api: FakeApi) -> None:
    api.before = lambda _: 503
    api.served = {"v1beta1"}
    async with asking(api) as asked:
        await eventually(lambda: len(api.requests) > 3)
        assert (asked.reported, asked.discovery.answered) == ([], False)
        api.before = lambda _: 0
        await eventually(lambda: asked.reported == ["v1beta1"])


async def test_an_account_without_the_right_leaves_the_webhook_ready(api: FakeApi) -> None:
    api.before = lambda _: 403
    async with asking(api) as asked:
        await eventually(lambda: asked.discovery.answered)
        assert asked.reported == [None]
        api.before = lambda _: 0
        api.served = {"v1beta1"}
        await eventually(lambda: asked.reported == [None, "v1beta1"])
        api.before = lambda _: 403
        seen = len(api.requests)
        await eventually(lambda: len(api.requests) > seen + 3)
        assert asked.discovery.found == "v1beta1"


@pytest.mark.parametrize(
    ("minor", "release"), [("37", (1, 37)), ("35+", (1, 35)), ("", None), ("x", None)]
)
async def test_the_release_of_the_api_server_is_known_where_it_tells(
    api: FakeApi, minor: str, release: tuple[int, int] | None
) -> None:
    api.minor = minor
    assert await releases(api, 1) == [release]


async def test_another_release_is_reported_as_well(api: FakeApi) -> None:
    api.minor = "34"

    def upgrade(release: tuple[int, int] | None) -> None:
        api.minor = "35" if release else "34"

    assert await releases(api, 2, upgrade) == [(1, 34), (1, 35)]


async def releases(
    api: FakeApi, count: int, hear: Callable[[tuple[int, int] | None], None] | None = None
) -> list[tuple[int, int] | None]:
    async with client_of(plain(api)) as connection:
        reported: list[tuple[int, int] | None] = []
        discovery = Discovery(KubernetesRelease(connection), OFTEN)
        discovery.subscribe(reported.append)
        if hear is not None:
            discovery.subscribe(hear)
        async with beside(discovery.run()):
            await eventually(lambda: len(reported) >= count)
    return reported
