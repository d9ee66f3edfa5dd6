"""Live updates: an internal error affects only its own part of the page, which shows the error."""

import asyncio
import json
from typing import Any

import pytest

from tests.harness.dashboard_page import Stage, renamed
from tests.harness.scenes import Scene
from tests.webhook.dashboard.test_board import Client
from tests.webhook.diagnostics.samples import samples
from webhook.dashboard.page import DashboardSite
from webhook.dashboard.query import Query
from webhook.dashboard.rendered import HtmlDrawer
from webhook.dashboard.session import Session
from webhook.dashboard.view import Section
from webhook.diagnostics.examiner import QUIET_SECONDS, Examiner
from webhook.diagnostics.live_objects import Webhook

EXAMINE = Examiner.examine
SECTION = HtmlDrawer.section


def examine_with_a_bug(examiner: Examiner, uid: str, now: float) -> bool:
    """Examine a RayCluster, unless it is `llama`."""
    if uid == "uid-of-llama":
        raise ValueError("a bug")
    return EXAMINE(examiner, uid, now)


def draw_with_a_bug(drawer: HtmlDrawer, section: Section) -> str:
    """Draw a RayCluster, unless it is `llama` and can be examined."""
    if section.cluster.name == "llama" and not section.cluster.failure:
        raise ValueError("a bug")
    return SECTION(drawer, section)


BUGS = [
    (Examiner, "examine", examine_with_a_bug),
    (HtmlDrawer, "section", draw_with_a_bug),
]


def a_stage() -> Stage:
    """Return a stage with two RayClusters, of which `llama` waits for a host."""
    scene = Scene().without("llama-tpu-worker-0-3")
    return Stage(renamed(Scene(), "other", "qwen"), scene.observed())


def look(stage: Stage) -> None:
    """Look again, when everything is due."""
    stage.now += QUIET_SECONDS
    asyncio.run(stage.live.examine_changed())


def site_of(stage: Stage) -> DashboardSite:
    return DashboardSite(stage.live, Session(), stage.drawer)


def status(stage: Stage) -> dict[str, Any]:
    """Return the picture as a program gets it."""

    async def read() -> bytes:
        return b"".join([part async for part in site_of(stage).status_json("")])

    found: dict[str, Any] = json.loads(asyncio.run(read()))
    return found


def shown(stage: Stage) -> dict[str, str]:
    """Return what stands above each RayCluster, as a browser has it that was open all the time."""
    page = Client(stage).tab.root
    return {top.every("h2")[0].text.split()[1]: top.text for top in page.every("div", "top")}


@pytest.mark.parametrize(("kind", "name", "broken"), BUGS)
def test_a_raycluster_that_brings_out_a_bug_is_shown_as_failed_and_all_others_as_they_are(
    kind: type, name: str, broken: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = a_stage()
    browser = Client(stage)
    with monkeypatch.context() as patch:
        patch.setattr(kind, name, broken)
        stage.drop_pods([Scene().pods["llama-tpu-worker-1-0"]])
        for pod in [
            pod for pod in stage.object_cache.pods.all if pod.name == "qwen-tpu-worker-0-3"
        ]:
            stage.object_cache.pods.remove(pod.metadata.uid or "")
        look(stage)
        failed, other = status(stage)["clusters"][::-1]
        assert {each["reason"] for each in failed.pop("conditions")} == {"NotExamined"}
        assert failed == {
            "namespace": "team",
            "name": "llama",
            "head": {"index": 0, "state": "unknown"},
            "groups": [],
            "uid": "uid-of-llama",
            "failure": "ValueError",
        }
        assert [each["id"] for each in other["problems"]] == ["host-missing"]
        assert status(stage)["waits"] is True
        tops = shown(stage)
        assert "cannot be shown" in tops["llama"]
        assert "ValueError" in tops["llama"]
        assert "host-missing" not in tops["llama"], "what was true before may not be any more"
        assert "host-missing" in tops["qwen"]
        page = site_of(stage).listing.page({})
        assert "2 RayClusters, 1 of them cannot be shown" in page
        browser.catch_up()
        browser.check()
        look(stage)
        browser.catch_up()
        browser.check()
    look(stage)
    assert [each["id"] for each in status(stage)["clusters"][1]["problems"]] == ["host-missing"] * 2
    browser.catch_up()
    browser.check()
    assert "cannot be shown" not in site_of(stage).listing.page({})


def test_a_bug_is_logged_once_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage = a_stage()
    with monkeypatch.context() as patch:
        patch.setattr(Examiner, "examine", examine_with_a_bug)
        for _ in range(3):
            look(stage)
            asyncio.run(stage.live.examine_changed())  # at which nothing is due
    (record,) = caplog.records
    text = "page: RayCluster team/llama cannot be examined: ValueError: a bug (unexpected)"
    assert record.getMessage() == text
    assert record.exc_info
    look(stage)
    monkeypatch.setattr(Examiner, "examine", examine_with_a_bug)
    look(stage)
    assert [each.getMessage() for each in caplog.records] == [text] * 2


async def test_rayclusters_appear_while_the_first_examination_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("webhook.dashboard.live_updates._SLICE", 0.0)
    stage = Stage()
    for name in ("a", "b", "c"):
        stage.load(renamed(Scene(), "team", name))

    changed = stage.live.changed
    looking = asyncio.create_task(stage.live.examine_changed())
    await changed.wait()
    assert stage.live.examinations == 0
    assert len(stage.board.find(Query()).shown) == 1
    await looking
    assert len(stage.board.find(Query()).shown) == 3


def test_a_raycluster_that_goes_while_it_cannot_be_shown_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = a_stage()
    with monkeypatch.context() as patch:
        patch.setattr(Examiner, "examine", examine_with_a_bug)
        look(stage)
    stage.object_cache.clusters.remove("uid-of-llama")
    look(stage)
    assert shown(stage).keys() == {"qwen"}


def test_an_installation_that_brings_out_a_bug_is_named_and_no_raycluster_is_kept_from_the_page(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(samples()["second-webhook"].scene().observed())
    assert [each["id"] for each in status(stage)["problems"]] == ["second-webhook"]

    def broken(*_: object) -> None:
        raise ValueError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(Webhook, "asked", broken)
        stage.object_cache.installation = True
        stage.drop_pods([Scene().pods["llama-tpu-worker-0-3"]])
        for _ in range(2):
            look(stage)
            assert status(stage)["unread"] == {"installation": "ValueError"}
            assert status(stage)["problems"] == []
            assert "installation (ValueError)" in site_of(stage).listing.page({})
        assert "host-missing" in shown(stage)["llama"]
    look(stage)
    assert status(stage)["unread"] == {}
    assert [each["id"] for each in status(stage)["problems"]] == ["second-webhook"]
    (message,) = caplog.messages
    assert message.startswith("page: the installation cannot be examined: ValueError: a bug")
