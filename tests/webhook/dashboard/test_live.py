"""Live updates: an internal error affects only its own part of the page, which shows the error."""

import asyncio
import json
from typing import Any

import pytest

from tests.harness.dashboard_page import Setup, renamed
from tests.harness.scenes import Scene
from tests.webhook.controller.test_reporter import examine_with_a_bug
from tests.webhook.dashboard.test_board import Client
from tests.webhook.dashboard.test_site import a_setup, site_of
from tests.webhook.diagnostics.samples import samples
from webhook.dashboard.query import Query
from webhook.dashboard.rendered import HtmlDrawer
from webhook.dashboard.view import Section
from webhook.diagnostics.examiner import QUIET_SECONDS, Examiner
from webhook.objects.live_objects import Webhook

SECTION = HtmlDrawer.section


def draw_with_a_bug(drawer: HtmlDrawer, section: Section) -> str:
    """Draw a RayCluster, unless it is `llama` and can be examined."""
    if section.cluster.name == "llama" and not section.cluster.failure:
        raise ValueError("a bug")
    return SECTION(drawer, section)


BUGS = [(Examiner, "examine", examine_with_a_bug), (HtmlDrawer, "section", draw_with_a_bug)]


def look(setup: Setup) -> None:
    """Look again, when everything is due."""
    setup.now += QUIET_SECONDS
    asyncio.run(setup.live.examine_changed())


def status(setup: Setup) -> dict[str, Any]:
    """Return the picture as a program gets it."""

    async def read() -> bytes:
        return b"".join([part async for part in site_of(setup).status_json("")])

    found: dict[str, Any] = json.loads(asyncio.run(read()))
    return found


def shown(setup: Setup) -> dict[str, str]:
    """Return what stands above each RayCluster, as a browser has it that was open all the time."""
    page = Client(setup).tab.root
    return {top.every("h2")[0].text.split()[1]: top.text for top in page.every("div", "top")}


@pytest.mark.parametrize(("kind", "name", "broken"), BUGS)
def test_a_raycluster_that_brings_out_a_bug_is_shown_as_failed_and_all_others_as_they_are(
    kind: type, name: str, broken: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = a_setup()
    browser = Client(setup)
    with monkeypatch.context() as patch:
        patch.setattr(kind, name, broken)
        setup.drop_pods([Scene().pods["llama-tpu-worker-1-0"]])
        setup.object_cache.pods.remove("uid-of-other-qwen-tpu-worker-0-3")
        look(setup)
        failed, other = status(setup)["clusters"][::-1]
        assert {each["reason"] for each in failed.pop("conditions")} == {"NotExamined"}
        assert failed == {
            "namespace": "team", "name": "llama", "head": {"index": 0, "state": "unknown"},
            "groups": [], "uid": "uid-of-llama", "failure": "ValueError"}  # fmt: skip
        assert [each["id"] for each in other["problems"]] == ["host-missing"]
        assert status(setup)["degraded"] is True
        tops = shown(setup)
        assert "cannot be shown" in tops["llama"]
        assert "ValueError" in tops["llama"]
        assert "host-missing" not in tops["llama"], "what was true before may not be any more"
        assert "host-missing" in tops["qwen"]
        page = site_of(setup).listing.page({})
        assert "2 RayClusters, 1 of them cannot be shown" in page
        browser.catch_up()
        look(setup)
        browser.catch_up()
    look(setup)
    assert [each["id"] for each in status(setup)["clusters"][1]["problems"]] == ["host-missing"] * 2
    browser.catch_up()
    assert "cannot be shown" not in site_of(setup).listing.page({})


def test_a_bug_is_logged_once_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    setup = a_setup()
    with monkeypatch.context() as patch:
        patch.setattr(Examiner, "examine", examine_with_a_bug)
        for _ in range(3):
            look(setup)
            asyncio.run(setup.live.examine_changed())  # at which nothing is due
    (record,) = caplog.records
    text = "page: RayCluster team/llama cannot be examined: ValueError: a bug (unexpected)"
    assert record.getMessage() == text
    assert record.exc_info
    look(setup)
    monkeypatch.setattr(Examiner, "examine", examine_with_a_bug)
    look(setup)
    assert [each.getMessage() for each in caplog.records] == [text] * 2


async def test_rayclusters_appear_during_the_first_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.dashboard.live_updates._SLICE", 0.0)
    setup = Setup()
    for name in ("a", "b", "c"):
        setup.load(renamed(Scene(), "team", name))

    changed = setup.live.changed
    looking = asyncio.create_task(setup.live.examine_changed())
    await changed.wait()
    assert setup.live.examinations == 0
    assert len(setup.board.find(Query()).shown) == 1
    await looking
    assert len(setup.board.find(Query()).shown) == 3


def test_a_raycluster_that_cannot_be_shown_can_be_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = a_setup()
    with monkeypatch.context() as patch:
        patch.setattr(Examiner, "examine", examine_with_a_bug)
        look(setup)
    setup.object_cache.clusters.remove("uid-of-llama")
    look(setup)
    assert shown(setup).keys() == {"qwen"}


def test_an_installation_that_brings_out_a_bug_is_named_and_no_raycluster_is_kept_from_the_page(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    setup = Setup(samples()["second-webhook"].scene().observed())
    assert [each["id"] for each in status(setup)["problems"]] == ["second-webhook"]

    def broken(*_: object) -> None:
        raise ValueError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(Webhook, "covers", broken)
        setup.object_cache.installation = True
        setup.drop_pods([Scene().pods["llama-tpu-worker-0-3"]])
        for _ in range(2):
            look(setup)
            assert status(setup)["unread"] == {"installation": "ValueError"}
            assert status(setup)["problems"] == []
            assert "installation (ValueError)" in site_of(setup).listing.page({})
        assert "host-missing" in shown(setup)["llama"]
    look(setup)
    assert status(setup)["unread"] == {}
    assert [each["id"] for each in status(setup)["problems"]] == ["second-webhook"]
    (message,) = caplog.messages
    assert message.startswith("page: the installation cannot be examined: ValueError: a bug")
