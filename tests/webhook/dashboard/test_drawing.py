"""The view, and its rendering: text of tenants is always escaped, and states are given in words."""

import math
import re

import pytest
from msgspec import structs

from tests.harness.html_browser import Element, parsed
from tests.harness.scenes import Scene, instant
from webhook.dashboard import view
from webhook.dashboard.rendered import HtmlDrawer, assets
from webhook.dashboard.view import build_list_section, whole
from webhook.diagnostics import report
from webhook.diagnostics.diagnosis import Problem

HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onmouseover='alert(1)",
    '" hx-swap-oob="delete',
    "</template></li><hx-partial hx-target='body'>gone</hx-partial>",
    "{{ 7 * 7 }}{% include 'page.html' %}", "javascript:alert(1)",
    "\r\ndata: gone\r\n\r\nevent: gone\n\n", "\u2028\x00\x1b[31m",
)  # fmt: skip
ALLOWED = {
    "id", "class", "href", "title", "tabindex", "type", "aria-hidden", "aria-label",
    "aria-labelledby", "datetime",
}  # fmt: skip


def hostile(text: str) -> report.RayClusterReport:
    """Return a RayCluster of which every word is hostile."""
    hosts = (
        report.HostReport(0, "ready", (text,), text, 1.0),
        report.HostReport(1, "missing"),
        report.HostReport(2, "twice", (text, text)),
    )
    replica = report.ReplicaReport(0, text, "degraded", hosts, 1.0)
    problem = Problem(
        "host-missing", "error", text, text, text, text, 1.0, text, text, text, 0, (1,), (text,)
    )
    group = report.GroupReport(text, 3, 1, (replica,), (text,))
    pod_group = report.PodGroupReport(text, 1, 2, missing=True, unscheduled=True)
    head = report.HostReport(0, "ready", (text,))
    return report.RayClusterReport(text, text, head, (group,), (problem,), True, 1, (pod_group,))  # noqa: FBT003


def drawn(text: str) -> list[Element]:
    """Return such a RayCluster, in the list and on its own page, parsed."""
    drawer, cluster = HtmlDrawer(), hostile(text)
    return [
        parsed(drawer.section(each)) for each in (build_list_section(cluster), whole(cluster, 1))
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_tenant_wrote_is_no_element_and_no_attribute(text: str) -> None:
    plain, found = drawn("plain"), drawn(text)
    for calm, hot in zip(plain, found, strict=True):
        assert [each.name for each in hot] == [each.name for each in calm]
        for element, other in zip(hot, calm, strict=True):
            assert element.attributes.keys() == other.attributes.keys()
            assert element.attributes.keys() <= ALLOWED
            assert element.attributes.get("id") == other.attributes.get("id") or text != "plain"
            assert element.attributes.get("class") == other.attributes.get("class")
            href = element.attributes.get("href", "/")
            assert href.startswith("/")
            assert not href.startswith("//")
            identity = element.attributes.get("id", "x")
            assert identity.replace("-", "").isalnum()
            assert identity.isascii()


def test_every_state_of_a_host_has_a_shape_and_words_of_its_own() -> None:
    style = assets()["page.css"][0].decode()
    labels = set()
    for state in ("ready", "starting", "pending", "missing", "failed", "twice"):
        assert f".host.{state} {{" in style
        host = report.HostReport(3, state, ("pod",))
        replica = report.ReplicaReport(0, "r", "creating", (host,))
        group = report.GroupReport("g", 4, 1, (replica,))
        cluster = report.RayClusterReport("n", "c", report.HostReport(0, "ready", ("h",)), (group,))
        (row,) = parsed(HtmlDrawer().section(whole(cluster, 1))).every("li", "row")
        (cell,) = row.every("a", "host")
        assert state in cell.classes
        assert cell.text == "3"
        labels.add(cell.attributes["title"])
    assert len(labels) == 6


def test_a_host_without_a_pod_leads_to_what_its_next_pod_is_given() -> None:
    (row,) = parsed(HtmlDrawer().section(build_list_section(hostile("a/b&c")))).every("li", "row")
    links = [each.attributes["href"] for each in row.every("a")]
    assert links[0] == "/pod?namespace=a%2Fb%26c&name=a%2Fb%26c"
    assert (
        links[1] == "/host?namespace=a%2Fb%26c&cluster=a%2Fb%26c&group=a%2Fb%26c&replica=0&host=1"
    )


def test_replicas_that_should_be_there_and_are_not_lead_nowhere() -> None:
    replica = report.ReplicaReport(None, "", "missing", (report.HostReport(0, "missing"),))
    group = report.GroupReport("g", 1, 1, (replica,))
    cluster = report.RayClusterReport("n", "c", report.HostReport(0, "missing"), (group,))
    section = parsed(HtmlDrawer().section(build_list_section(cluster)))
    (link,) = section.every("a")
    assert link.attributes["href"] == "/?namespace=n&cluster=c"
    assert "not created" in section.text


def test_pod_groups_are_on_the_page_of_a_raycluster_and_in_the_list_if_it_is_degraded() -> None:
    degraded = hostile("a")
    ready = structs.replace(degraded, problems=(), groups=())
    shown = [build_list_section(degraded), build_list_section(ready), whole(ready, 1)]
    assert [len(section.pod_groups) for section in shown] == [1, 0, 1]


def test_styles_ask_for_nothing_of_another_site() -> None:
    for name, (content, kind) in assets().items():
        if kind == "text/css":
            assert not re.search(r"url\(|@import", content.decode()), name


def test_a_raycluster_that_is_being_deleted_is_not_said_to_come_up() -> None:
    scene = Scene().without("llama-head", "llama-tpu-worker-0-3")
    scene.cluster["metadata"]["deletionTimestamp"] = instant(60)
    shown = build_list_section(scene.examined().clusters[0])
    assert (shown.state, shown.text) == ("progressing", "being deleted")


def test_pods_that_are_being_deleted_are_counted_where_there_are_some() -> None:
    scene = Scene()
    assert build_list_section(scene.examined().clusters[0]).notes == ()
    scene.changed(
        "llama-tpu-worker-0-3",
        metadata={"deletionTimestamp": instant(5), "deletionGracePeriodSeconds": 30},
    )
    assert build_list_section(scene.examined().clusters[0]).notes == ("1 pod being deleted",)


def test_a_group_without_replicas_has_lost_them_with_its_raycluster() -> None:
    scene = Scene().without(*Scene().pods)
    scene.cluster["metadata"]["deletionTimestamp"] = instant(60)
    assert build_list_section(scene.examined().clusters[0]).groups[0].text == "no replicas"


def test_a_raycluster_says_whose_it_is_and_which_ray_it_runs() -> None:
    scene = Scene()
    owner = {"kind": "RayJob", "name": "train", "uid": "u", "controller": True}
    labels = {"kueue.x-k8s.io/queue-name": "research"}
    scene.cluster["metadata"] |= {"ownerReferences": [owner], "labels": labels}
    scene.cluster["spec"]["rayVersion"] = "2.54.0"
    cluster = scene.examined().clusters[0]
    assert build_list_section(cluster).notes == ("of RayJob train", "Ray 2.54.0", "queue research")


@pytest.mark.parametrize("seconds", [-1e300, 1e300, math.inf, math.nan, 253_402_300_800.0])
def test_a_time_that_no_calendar_has_is_not_shown(seconds: float) -> None:
    assert view.time_of(seconds) == ""
