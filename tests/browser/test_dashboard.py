"""User actions on the dashboard, in Chromium."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.conftest import LIVE_MS, Shown, dashboard, opened
from tests.browser.install import AXE
from tests.browser.pictures import TEXTS, WINDOWS, open_page, text_in, write_state
from tests.harness.fake_api import PODS, RAYCLUSTERS
from tests.harness.fleet import Fleet
from tests.harness.scenes import Scene
from tests.harness.served import serving_cluster
from tests.harness.server import serving_dashboard
from tests.webhook.diagnostics.samples import samples

pytestmark = pytest.mark.browser

HOST = "llama-tpu-worker-0-3"
PHONE = {"width": 375, "height": 812}
PLAIN_LINKS = """
() => {
  const begun = performance.now();
  const list = document.createElement("div");
  list.innerHTML = '<a href="#" title="a host">0</a> '.repeat(14000);
  document.body.append(list);
  list.offsetHeight;
  list.remove();
  return performance.now() - begun;
}
"""
"""Lays out plain links, which takes longer than the longest task of the page on any machine."""


@pytest.fixture
def phone(browser: Browser, shown: Shown) -> Iterator[Page]:
    yield from opened(browser, shown.address, viewport=PHONE, has_touch=True)


@pytest.fixture
def dark(browser: Browser, shown: Shown) -> Iterator[Page]:
    yield from opened(browser, shown.address, color_scheme="dark")


def brightness(page: Page) -> float:
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


def violations(page: Page) -> list[str]:
    page.evaluate(AXE.read_text())  # by the debugger, which no policy of the page concerns
    found: list[dict[str, Any]] = page.evaluate("axe.run().then((found) => found.violations)")
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found]


def test_the_focus_stays_on_a_host_that_changes(page: Page, shown: Shown) -> None:
    page.locator("h2 a", has_text="llama").click()
    expect(page.locator("#link")).to_have_text("live")
    cell = page.locator("a.host.missing")
    expect(cell).to_have_attribute("title", "host 3: missing")
    cell.focus()
    identity = cell.get_attribute("id")
    shown.cluster.put(PODS, shown.scene.pods[HOST])
    expect(page.locator("a.host.missing, .problem")).to_have_count(0)
    assert page.evaluate("document.activeElement.id") == identity
    shown.cluster.delete(PODS, HOST)
    expect(page.locator("a.host.missing")).to_have_count(1)
    assert page.evaluate("document.activeElement.id") == identity


@pytest.mark.parametrize("moves", [True, False], ids=["with-moveBefore", "without"])
def test_a_raycluster_that_moves_keeps_the_focus(
    browser: Browser, shown: Shown, *, moves: bool
) -> None:
    for page in opened(browser, shown.address):
        if not moves:
            page.evaluate("delete Element.prototype.moveBefore")
        titles = page.locator("section h2")
        expect(titles).to_have_text(["team/llama", "other/qwen"])
        expect(page).to_have_title("(1) ray-webhook")
        page.locator("h2 a", has_text="llama").focus()
        identity = page.evaluate("document.activeElement.id")
        shown.cluster.put(PODS, shown.scene.pods[HOST])
        expect(titles).to_have_text(["other/qwen", "team/llama"])
        expect(page).to_have_title("ray-webhook")
        expect(page.locator("#summary")).to_have_text("2 RayClusters 2 ready")
        assert page.evaluate("document.activeElement.id") == identity
        shown.cluster.delete(PODS, HOST)
        expect(titles).to_have_text(["team/llama", "other/qwen"])
        assert page.evaluate("document.activeElement.id") == identity


def test_the_filter_shows_one_namespace_and_its_address_can_be_shared(page: Page) -> None:
    page.select_option("#namespace", "other")
    expect(page.locator("section h2")).to_have_text(["other/qwen"])
    expect(page).to_have_url(re.compile("namespace=other"))
    expect(page.locator("#link")).to_have_text("live")
    page.reload()
    expect(page.locator("section h2")).to_have_text(["other/qwen"])
    page.select_option("#namespace", "")
    expect(page.locator("section h2")).to_have_count(2)


def test_a_search_narrows_the_list_as_it_is_typed_and_follows_changes(
    page: Page, shown: Shown
) -> None:
    page.locator("#q").press_sequentially("QWEN", delay=20)
    expect(page.locator("section h2")).to_have_text(["other/qwen"])
    expect(page.locator("#q")).to_be_focused()
    expect(page).to_have_url(re.compile("q=QWEN"))
    page.fill("#q", "host-missing")
    expect(page.locator("section h2")).to_have_text(["team/llama"])
    expect(page.locator("#link")).to_have_text("live")
    shown.cluster.put(PODS, shown.scene.pods[HOST])
    expect(page.locator(".nothing")).to_have_text("No RayCluster matches.")
    shown.cluster.delete(PODS, HOST)
    expect(page.locator("section h2")).to_have_text(["team/llama"])
    page.reload()
    expect(page.locator("#q")).to_have_value("host-missing")
    expect(page.locator("section h2")).to_have_text(["team/llama"])


def test_the_headline_and_the_problems_filter_and_the_order_can_be_chosen(page: Page) -> None:
    titles = page.locator("section h2")
    expect(titles).to_have_text(["team/llama", "other/qwen"])
    page.locator("#summary a", has_text="ready").click()
    expect(titles).to_have_text(["other/qwen"])
    page.locator("#summary a", has_text="ready").click()
    expect(titles).to_have_count(2)
    page.locator("a.chip", has_text="host-missing").click()
    expect(titles).to_have_text(["team/llama"])
    page.go_back()
    expect(titles).to_have_count(2)
    page.select_option("#sort", "name")
    expect(titles).to_have_text(["other/qwen", "team/llama"])
    page.reload()
    expect(titles).to_have_text(["other/qwen", "team/llama"])


def test_a_ready_raycluster_is_one_line_that_leads_to_its_replicas(page: Page) -> None:
    section = page.locator("section", has_text="qwen")
    expect(section.locator(".row")).to_have_count(0)
    box = section.bounding_box()
    assert box
    assert box["height"] < 60
    section.locator("h2 a").click()
    expect(page.locator("section h2")).to_have_text(["other/qwen"])
    expect(page.locator(".row")).to_have_count(2)
    page.locator(".back a").click()
    expect(page.locator("section")).to_have_count(2)


def test_one_click_tells_what_a_host_was_given_and_why(page: Page) -> None:
    page.locator("section", has_text="llama").locator(".row a.host.ready").nth(1).click()
    panel = page.locator("#panel")
    expect(panel).to_be_visible()
    expect(panel).to_contain_text("host 1 of replica 0")
    for words in ("node-0-1", "rayproject/ray", "kubectl logs -n team", "port-forward"):
        expect(panel).to_contain_text(words)
    box, section = panel.bounding_box(), page.locator("section").first.bounding_box()
    assert box
    assert section
    assert section["x"] + section["width"] <= box["x"], "the list is beside it"
    expect(panel.locator("li", has_text="TPU_WORKER_ID=1")).to_contain_text(
        "index of the host in its slice"
    )
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    page.locator("a.host.missing").click()
    expect(panel).to_contain_text("What its next pod will be given, and why")
    expect(panel).to_contain_text("TPU_WORKER_ID=3")
    panel.locator("button.close").click()
    expect(panel).to_be_hidden()
    page.locator("#live a.explain").click()
    expect(panel).to_contain_text("A replica with missing hosts.")


def test_opening_a_host_moves_it_into_the_address(page: Page) -> None:
    page.locator("a.host.missing").click()
    expect(page.locator("#panel")).to_contain_text("host 3 of replica 0")
    expect(page).to_have_url(re.compile("#/host\\?"))
    page.reload()
    expect(page.locator("#panel")).to_contain_text("host 3 of replica 0")
    page.locator("#live a.explain").click()
    expect(page.locator("#panel-title")).to_have_text("host-missing")
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    expect(page.locator("#live a.explain")).to_be_focused()
    assert "#" not in page.url


def test_a_panel_that_is_closed_while_it_is_read_stays_closed(page: Page) -> None:
    page.locator("a.host.missing").click()
    expect(page.locator("#panel")).to_contain_text("host 3 of replica 0")
    requests = list[Route]()
    page.route("**/diagnosis?*", lambda route: requests.append(route))  # noqa: PLW0108
    with page.expect_request("**/diagnosis?*"):
        page.locator("#live a.explain").click()
    page.keyboard.press("Escape")
    with page.expect_response("**/diagnosis?*"):
        requests[0].continue_()
    expect(page.locator("#panel-title")).to_have_text("host-missing")
    expect(page.locator("#panel")).to_be_hidden()


def test_an_open_host_is_followed(page: Page, shown: Shown) -> None:
    panel, title = page.locator("#panel"), page.locator("#panel-title")
    page.locator("a.host.missing").click()
    expect(title).to_have_text("host 3 of replica 0")
    pod = shown.scene.pods[HOST]
    shown.cluster.put(PODS, pod)
    expect(title).to_have_text(f"team/{HOST}")
    expect(panel).to_contain_text("Running: host 3 of replica 0")
    panel.locator("button.close").focus()
    ended = {**pod, "status": {**pod["status"], "phase": "Failed"}}
    shown.cluster.put(PODS, ended)
    expect(panel).to_contain_text("Failed: host 3 of replica 0")
    shown.cluster.delete(PODS, HOST)
    expect(title).to_have_text("host 3 of replica 0")
    expect(panel).to_contain_text("replica 0 (tpu-s6kpg) has 3 of 4 hosts: host 3 is missing")
    expect(panel.locator("button.close")).to_be_focused()


def test_an_open_host_whose_raycluster_goes_says_so(page: Page, shown: Shown) -> None:
    other = Scene().renamed("other", "qwen")
    page.locator("h2 a", has_text="qwen").click()
    page.locator("body:has(#link.live) .row a.host.ready").first.click()
    panel = page.locator("#panel")
    expect(panel).to_contain_text("host 0 of replica 0")
    for pod in other.pods:
        shown.cluster.delete(PODS, pod, "other")
    shown.cluster.delete(RAYCLUSTERS, "qwen", "other")
    expect(panel).to_contain_text("It does not exist")
    expect(page.locator("#panel-title")).to_have_text("other/qwen-tpu-worker-0-0")
    shown.cluster.store(other)
    expect(panel).to_contain_text("host 0 of replica 0")


def test_the_keyboard_does_all_of_it(page: Page) -> None:
    page.keyboard.press("n")
    expect(page.locator("a.explain")).to_be_focused()
    page.keyboard.press("t")
    expect(page.locator("#link.live, section h2")).to_have_text(["live", "team/llama"])
    page.keyboard.press("t")
    expect(page.locator("#link.live, section h2")).to_have_count(3)
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.locator("h2 a", has_text="llama").press("Enter")
    expect(page.locator("#link.live, .row")).to_have_count(3)
    page.locator("ul.rows").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".row a.host").nth(5)).to_be_focused()
    page.keyboard.press("ArrowUp")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect(page.locator("a.host.missing")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#panel")).to_contain_text("host 3 of replica 0")
    expect(page.locator("#panel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    expect(page.locator("a.host.missing")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()


def test_the_first_tab_stop_skips_to_what_matters(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.locator("a.skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#live")).to_be_focused()


def test_it_is_dark_for_those_who_like_it_so_and_for_those_who_choose_it(
    page: Page, dark: Page
) -> None:
    assert brightness(dark) < 50
    assert brightness(page) > 200
    page.click("#theme")
    page.click("#theme")
    assert brightness(page) < 50
    page.reload()
    assert brightness(page) < 50
    page.click("#theme")
    assert brightness(page) > 200


def test_on_a_phone_nothing_is_cut_off(phone: Page) -> None:
    assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for element in phone.locator("a.host, .problem, select, button:visible, #summary").all():
        box = element.bounding_box()
        if box is not None:
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= PHONE["width"]
    phone.locator("a.host.missing").tap()
    expect(phone.locator("#panel")).to_be_visible()
    box = phone.locator("#panel").bounding_box()
    assert box
    assert box["width"] <= PHONE["width"]
    assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_axe_finds_nothing_wrong(page: Page, dark: Page, phone: Page) -> None:
    for each in (page, dark, phone):
        assert violations(each) == []
        each.locator("a.host.missing").click()
        expect(each.locator("#panel")).to_be_visible()
        assert violations(each) == []
        each.keyboard.press("Escape")
        each.locator("#help").click()
        assert violations(each) == []


def test_without_the_printed_address_nobody_gets_in(browser: Browser, shown: Shown) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(shown.address.partition("/enter")[0])
    expect(page.locator("h2")).to_have_text("Sign in")
    assert "llama" not in page.content()
    assert violations(page) == []
    context.close()


def test_a_page_whose_dashboard_ends_says_so_and_comes_back(
    browser: Browser, tmp_path: Path
) -> None:
    with serving_cluster() as cluster:
        cluster.store(Scene())
        with dashboard(cluster, tmp_path) as address:
            context = browser.new_context()
            page = context.new_page()
            page.goto(address)
            expect(page.locator("#link")).to_have_text("live")
            expect(page.locator("section h2")).to_have_text(["team/llama"])
        expect(page.locator("#link")).to_have_text("offline")
        expect(page.locator("section h2")).to_have_text(["team/llama"])
        context.close()


HOSTILE = '"><img src=x onerror="window.hit=1"><script>window.hit=1</script><hx-partial>{{7*7}}'


def test_words_of_a_tenant_stay_words(browser: Browser, tmp_path: Path) -> None:
    scene = samples()["container-not-running"].scene()
    (waiting,) = scene.pods[HOST]["status"]["containerStatuses"]
    waiting["name"] = HOSTILE
    scene.cluster["spec"]["workerGroupSpecs"][0]["groupName"] = "tpu"
    with serving_cluster() as cluster, dashboard(cluster, tmp_path) as address:
        for page in opened(browser, address):
            cluster.store(scene)  # comes by the feed
            expect(page.locator(".problem")).to_contain_text([HOSTILE[:20]])
            page.reload()  # and by the page
            expect(page.locator(".problem")).to_contain_text([HOSTILE[:20]])
            page.locator(f"a.host[href*='{HOST}']").click()
            expect(page.locator("#panel .problem")).to_contain_text(HOSTILE[:20])
            assert page.evaluate("window.hit") is None
            assert page.locator("img, hx-partial, main script").count() == 0


def test_the_pictures_of_the_documentation_show_this_page(browser: Browser, tmp_path: Path) -> None:
    """To take them again: `python -m tests.browser.pictures`."""
    state = tmp_path / "state.json"
    write_state(state)
    with serving_dashboard("--state", str(state)) as address:
        shown = {name: text_in(open_page(browser, address, name)) for name in WINDOWS}
    pictures = json.loads(TEXTS.read_text(encoding="utf-8"))
    assert shown == {name: picture["text"] for name, picture in pictures.items()}


def traced(page: Page, browser: Browser, work: Any) -> tuple[list[float], list[int]]:  # noqa: ANN401
    """Return how many milliseconds of a core the tasks of the page's main thread took, and how many
    objects each layout was about.
    """
    categories = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
    browser.start_tracing(page=page, categories=categories)
    work()
    events = json.loads(browser.stop_tracing())["traceEvents"]
    threads = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("name") == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    own = [event for event in events if (event["pid"], event["tid"]) in threads]
    took = [
        event["tdur"] / 1000
        for event in own
        if event.get("name") in {"RunTask", "ThreadControllerImpl::RunTask"} and "tdur" in event
    ]
    laid_out = [
        event["args"]["beginData"]["totalObjects"]
        for event in own
        if event.get("name") == "Layout" and "beginData" in event["args"]
    ]
    return took, laid_out


def test_with_five_thousand_rayclusters_the_page_has_fifty_and_no_task_is_long(
    browser: Browser, tmp_path: Path
) -> None:
    fleet = Fleet(clusters=5000, replicas=1)
    with serving_cluster() as cluster:
        for resource, objects in fleet.resources.items():
            cluster.portal.call(cluster.api.load, resource, objects)
        with dashboard(cluster, tmp_path) as address:
            context = browser.new_context()
            page = context.new_page()
            page.goto(address, timeout=900_000)  # signs in
            expect(page.locator("#summary")).to_contain_text("5000 RayClusters", timeout=900_000)
            page.goto("about:blank")

            def work() -> None:
                page.goto(address.partition("/enter")[0], timeout=900_000)
                expect(page.locator("#link")).to_have_text("live")
                expect(page.locator("section")).to_have_count(50)
                for pods in fleet.replicas[-20:]:
                    cluster.delete(PODS, pods[3]["metadata"]["name"])
                expect(page.locator("a.host.missing")).to_have_count(20, timeout=3 * LIVE_MS)
                expect(page).to_have_title("(20) ray-webhook")
                expect(page.locator("section")).to_have_count(50)
                page.fill("#q", "fleet-4321")
                expect(page.locator("section h2")).to_have_text(["team/fleet-4321"])
                page.fill("#q", "")
                expect(page.locator(".pages")).to_contain_text("page 1 of 100")
                page.locator("#page-next").click()
                expect(page.locator("section")).to_have_count(50)

            took, laid_out = traced(page, browser, work)
            bound = min(page.evaluate(PLAIN_LINKS) for _ in range(3))
            elements = page.evaluate("document.querySelectorAll('*').length")
            context.close()
    assert elements < 2000
    assert len(took) > 100
    assert max(took) <= bound, sorted(took)[-5:]
    assert laid_out
    assert max(laid_out) < 4 * elements, (elements, sorted(laid_out)[-5:])
