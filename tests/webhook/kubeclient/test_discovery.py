"""Discovery: the resources that the API server serves, and no change during an outage."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.harness.fake_api import FakeApi
from tests.harness.following import beside, client_of, eventually, plain
from webhook.kubeclient.discovery import Discovery, KubernetesRelease, PodGroupsServed

OFTEN = 0.02


@asynccontextmanager
async def asking(api: FakeApi) -> AsyncIterator[tuple[Discovery[str], list[str | None]]]:
    """Ask a fake API server until the end of the block; yield what was reported so far too."""
    async with client_of(plain(api)) as connection:
        discovery, reported = Discovery(PodGroupsServed(connection), OFTEN), list[str | None]()
        discovery.subscribe(reported.append)
        async with beside(discovery.run()):
            yield discovery, reported


@pytest.mark.parametrize(("served", "found"), [
    ({"v1beta1", "v1alpha2"}, "v1beta1"), ({"v1beta1"}, "v1beta1"), ({"v1alpha2"}, "v1alpha2"),
    ({"v1", "v1beta1"}, "v1"), ({"v1alpha3"}, None), (set(), None),
])  # fmt: skip
async def test_the_best_version_is_given(api: FakeApi, served: set[str], found: str | None) -> None:
    api.served = served
    async with asking(api) as (discovery, reported):
        await eventually(lambda: api.requests and len(api.requests) > 6)
        assert reported == [found]
        assert (discovery.answered, discovery.found) == (True, found)


async def test_upgrade_and_gate_are_noticed(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "webhook.kubeclient")
    api.served = {"v1alpha2"}
    async with asking(api) as (_, reported):
        await eventually(lambda: reported == ["v1alpha2"])
        api.served = {"v1beta1"}
        await eventually(lambda: reported == ["v1alpha2", "v1beta1"])
        api.served = set()
        await eventually(lambda: reported == ["v1alpha2", "v1beta1", None])
    assert [record.getMessage() for record in caplog.records] == [
        "scheduling.k8s.io/v1alpha2 is served by the API server",
        "scheduling.k8s.io/v1beta1 is served by the API server, which is new",
        "PodGroups are not served by the API server, which is new",
    ]


async def test_an_outage_keeps_the_answer(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    api.served = {"v1beta1"}
    async with asking(api) as (discovery, reported):
        await eventually(lambda: reported)
        api.before = lambda _: 500
        seen = len(api.requests)
        await eventually(lambda: len(api.requests) > seen + 4)
        assert discovery.found == "v1beta1"
        api.before = lambda _: 0
        seen = len(api.requests)
        await eventually(lambda: len(api.requests) > seen + 2)
        assert reported == ["v1beta1"]
        late: list[str | None] = []
        discovery.subscribe(late.append)
        assert late == ["v1beta1"]
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


async def test_before_the_first_answer_nothing_is_known(api: FakeApi) -> None:
    api.before = lambda _: 503
    api.served = {"v1beta1"}
    async with asking(api) as (discovery, reported):
        await eventually(lambda: len(api.requests) > 3)
        assert (reported, discovery.answered) == ([], False)
        api.before = lambda _: 0
        await eventually(lambda: reported == ["v1beta1"])


async def test_an_account_without_the_right_leaves_the_webhook_ready(api: FakeApi) -> None:
    api.before = lambda _: 403
    async with asking(api) as (discovery, reported):
        await eventually(lambda: discovery.answered)
        assert reported == [None]
        api.before = lambda _: 0
        api.served = {"v1beta1"}
        await eventually(lambda: reported == [None, "v1beta1"])
        api.before = lambda _: 403
        seen = len(api.requests)
        await eventually(lambda: len(api.requests) > seen + 3)
        assert discovery.found == "v1beta1"


@pytest.mark.parametrize(
    ("minor", "release"), [("37", (1, 37)), ("35+", (1, 35)), ("", None), ("x", None)]
)
async def test_the_release_of_the_api_server_is_known_where_it_tells(
    api: FakeApi, minor: str, release: tuple[int, int] | None
) -> None:
    api.minor = minor
    async with client_of(plain(api)) as connection:
        assert await KubernetesRelease(connection).ask() == release
