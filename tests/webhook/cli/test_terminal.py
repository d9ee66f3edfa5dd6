"""The printed status report on terminals of all sizes, and a screen that is redrawn in place."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console, Group, RenderableType

from tests import ROOT
from tests.builders import a_cluster
from tests.harness.scenes import NOW, Scene, instant
from tests.harness.served import serving
from webhook.cli.cluster_tree import drawing
from webhook.cli.terminal import Screen, Text, show


def a_console(width: int, height: int = 25) -> tuple[Console, io.StringIO]:
    """Return a console of a size, which believes in its terminal, and what is written to it."""
    written = io.StringIO()
    console = Console(file=written, width=width, height=height, force_terminal=True, _environ={})
    return console, written


class Seen:
    """The rows of a terminal to which something is written, by the few controls that are used."""

    def __init__(self, width: int, height: int) -> None:
        self.rows: list[str] = [""]
        self._row = 0
        self._width, self._height = width, height

    def write(self, text: str) -> None:
        for control, count, what, character in _WRITTEN.findall(text):
            if what == "A":  # up, but not beyond what is on the screen
                self._row = max(self._row - int(count or 1), len(self.rows) - self._height, 0)
            elif what == "K":
                self.rows[self._row] = ""
            elif character == "\n":
                self._down()
            elif character and character != "\r":
                if len(self.rows[self._row]) == self._width:
                    self._down()
                self.rows[self._row] += character
            else:
                assert character or what in "mhl", control

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self.rows):
            self.rows.append("")

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows).rstrip("\n")


_WRITTEN = re.compile(r"(\x1b\[\??([0-9;]*)([A-Za-z]))|([^\x1b])", re.DOTALL)


class Terminal:
    """A program in a pseudo-terminal, and all that it wrote so far."""

    def __init__(self, process: "subprocess.Popen[bytes]", leader: int) -> None:
        self.process = process
        self.text = ""
        self._leader = leader
        self._bytes = b""

    def read_until(self, text: str) -> None:
        """Read until a text was written. Raises OSError when the program ends before."""
        while text not in self.text:
            self._bytes += os.read(self._leader, 65536)
            self.text = self._bytes.decode(errors="ignore")


@contextmanager
def terminal(*arguments: str, width: int, height: int) -> Iterator[Terminal]:
    """Run a command of ours in a terminal of a size; it is killed in the end."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    environment = kept | {"TERM": "xterm-256color", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(
        [sys.executable, "-m", "webhook.cli.main", *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
        cwd=ROOT,
    ) as process:
        os.close(follower)
        try:
            yield Terminal(process, leader)
        finally:
            process.kill()
            os.close(leader)


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
    scene.cluster["metadata"]["deletionTimestamp"] = "2024-11-21T11:58:00Z"
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


class Shown:
    """A screen of 20 columns and 10 rows, and the rows that are seen after each picture."""

    def __init__(self) -> None:
        console, self._written = a_console(20, height=10)
        self._screen, self._seen = Screen(console), Seen(20, 10)

    def show(self, picture: RenderableType, *, new: bool = True) -> str:
        self._screen.show(picture, new=new)
        self._seen.write(self._written.getvalue())
        self._written.seek(0)
        self._written.truncate()
        return self._seen.text


def lines(number: int, last: str) -> Group:
    return Group(*(Text(f"line {each}") for each in range(number - 1)), Text(last))


def test_a_picture_is_drawn_over_the_one_before() -> None:
    screen = Shown()
    for number, last in ((5, "one"), (3, "two"), (4, "three")):
        rows = [*(f"line {each}" for each in range(number - 1)), last]
        assert screen.show(lines(number, last)) == "\n".join(rows)


def test_a_line_that_is_longer_than_the_terminal_is_wide_counts_for_all_its_rows() -> None:
    screen = Shown()
    for length in (55, 41, 40, 7):
        picture = Text("x" * length, no_wrap=True, overflow="ignore")
        assert screen.show(picture, new=False).replace("\n", "") == "x" * length


def test_a_picture_that_is_taller_is_there_to_the_last_line() -> None:
    screen = Shown()
    whole = "\n".join([*(f"line {each}" for each in range(29)), "all of it"])
    assert screen.show(lines(30, "all of it")) == whole
    assert screen.show(lines(30, "all of it"), new=False) == whole
    seen = screen.show(lines(30, "more"))
    assert seen.startswith(whole)
    assert seen.endswith("line 28\nmore")
    screen.show(lines(3, "less"))
    assert screen.show(lines(3, "least")).endswith("more\nline 0\nline 1\nleast")


def test_a_watch_draws_what_status_draws_and_cuts_nothing(tmp_path: Path) -> None:
    scene = Scene()
    for number in range(4):
        scene.with_env(f"llama-tpu-worker-0-{number}", TPU_WORKER_ID="9")
    with serving(scene, tmp_path) as (_, kubeconfig):
        arguments = ("status", "--watch", "--kubeconfig", str(kubeconfig))
        with terminal(*arguments, width=60, height=8) as watch:
            watch.read_until("1 degraded")
        with terminal(*arguments, "--output=json", width=60, height=8) as printing:
            printing.read_until("llama")
    assert printing.text.startswith("{")
    seen = Seen(60, 8)
    seen.write(watch.text)
    assert "■■■■" in seen.text
    assert "..." not in seen.text.splitlines()
    command = "kubectl delete pod -n team " + " ".join(
        f"llama-tpu-worker-0-{number}" for number in range(4)
    )
    assert command in seen.text.replace("\n", "")
