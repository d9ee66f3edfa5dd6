"""The printed status report, on terminals of all widths."""

import re

import pytest

from tests.builders import a_cluster
from tests.harness.scenes import NOW, Scene, instant
from tests.webhook.cli.terminals import a_console
from webhook.cli.cluster_tree import drawing
from webhook.cli.terminal import show

WIDTHS = (60, 80, 100, 400)


def drawn(scene: Scene, width: int, *, wide: bool = False) -> str:
    console, written = a_console(width)
    show(drawing(scene.examined(NOW), wide=wide), screen=console)
    return re.sub(r"\x1b\[[0-9;]*m", "", written.getvalue())


def of_64_hosts() -> Scene:
    cluster = a_cluster("llama").group("tpu", hosts=64, replicas=2)
    return Scene(cluster).without("llama-tpu-worker-0-3")


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_of_a_replica_of_64_hosts_is_lost(width: int, wide: bool) -> None:
    text = drawn(of_64_hosts(), width, wide=wide)
    assert "…" not in text
    for part in ("replica 0", "63/64", "degraded", "replica 1", "64/64", "complete"):
        assert part in text
    for word in ("host", "3", "missing"):
        assert re.search(rf"\b{word}\b", text)
    assert text.count("■") == 1 + 63 + 64  # the head, and the hosts
    assert text.count("□") == 1
    assert wide == ("node" in text)


@pytest.mark.parametrize("width", WIDTHS)
def test_only_commands_are_longer_than_a_terminal_is_wide(width: int) -> None:
    long = [line for line in drawn(of_64_hosts(), width).splitlines() if len(line) > width]
    assert all(line.startswith("      kubectl ") for line in long)


def test_a_replica_that_starts_has_the_age_of_its_newest_pod() -> None:
    coming = {"metadata": {"creationTimestamp": instant(40)}, "status": {"conditions": None}}
    text = drawn(Scene().changed("llama-tpu-worker-0-3", **coming), 100)
    assert re.search(r"replica 0 +■■■\S +3/4 +creating +for 40 s\n", text)
    assert len(re.findall(" for ", text)) == 1


def test_a_group_with_a_disruption_budget_has_a_line_with_its_use() -> None:
    cluster = a_cluster("llama").group("tpu", hosts=4, replicas=3)
    assert "disruption" not in drawn(Scene(cluster), 100)
    scene = Scene(cluster.opting(max_disrupted_replicas="2"))
    assert "disruption: 0 of 2" in drawn(scene, 100)
    assert "disruption: 1 of 2" in drawn(scene.without("llama-tpu-worker-0-3"), 100)


def test_replicas_that_wait_for_the_budget_are_those_on_cordoned_nodes() -> None:
    cluster = a_cluster("llama").group("tpu", hosts=4, replicas=3)
    scene = Scene(cluster.opting(max_disrupted_replicas="1"))
    node = scene.pods["llama-tpu-worker-1-2"]["spec"]["nodeName"]
    for each in scene.nodes:
        each["spec"] = {"unschedulable": each["metadata"]["name"] == node}
    waits = "disruption: 1 of 1; replica 1 on cordoned nodes cannot be evicted yet"
    assert waits not in drawn(scene, 100)
    assert waits in drawn(scene.without("llama-tpu-worker-0-3"), 100)


def test_a_group_whose_replicas_went_with_its_raycluster_was_not_asked_to_be_empty() -> None:
    text = drawn(Scene(a_cluster("llama").group("tpu", hosts=4, replicas=0)), 100)
    assert "no replicas" in text
    assert "as asked for" in text
    scene = Scene().without(*Scene().pods)
    scene.cluster["metadata"]["deletionTimestamp"] = "2026-11-21T11:58:00Z"
    text = drawn(scene, 100)
    assert "no replicas" in text
    assert "as asked for" not in text


PENDING = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}


def without_nodes(replicas: int) -> Scene:
    scene = Scene(a_cluster("llama").group("tpu", hosts=2, replicas=replicas))
    for name in [name for name in scene.pods if name != "llama-head"]:
        scene.changed(name, spec={"nodeName": None}, status=PENDING)
    return scene


def test_a_problem_of_many_replicas_is_drawn_once_with_the_others_that_have_it() -> None:
    text = drawn(without_nodes(40), 400)
    assert text.count("kubectl describe pod -n team") == 1
    assert "(and 39 more replicas like it: 1-39)" in text
    assert "28 replicas of 12-39" in text
    assert "replica 11 " in text
    assert "replica 12 " not in text


def test_wide_draws_each_problem_of_each_replica() -> None:
    text = drawn(without_nodes(40), 400, wide=True)
    assert text.count("kubectl describe pod -n team") == 40
    assert "replica 39 " in text


def test_replicas_that_are_not_created_share_a_row() -> None:
    scene = Scene(a_cluster("llama").group("tpu", hosts=2, replicas=500))
    scene.without(*[name for name in scene.pods if name != "llama-head"])
    text = drawn(scene, 100)
    assert text.count("not created") == 12
    assert "488 replicas " in text
