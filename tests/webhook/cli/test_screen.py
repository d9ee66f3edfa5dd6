"""A screen on which reports are redrawn in place."""

from pathlib import Path

from rich.console import Group, RenderableType

from tests.harness.scenes import Scene
from tests.harness.served import serving
from tests.webhook.cli.terminals import Seen, a_console, terminal
from webhook.cli.terminal import Screen, Text


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
    seen = Seen(60, 8)
    seen.write(watch.text)
    assert "■■■■" in seen.text
    assert "..." not in seen.text.splitlines()
    command = "kubectl delete pod -n team " + " ".join(
        f"llama-tpu-worker-0-{number}" for number in range(4)
    )
    assert command in seen.text.replace("\n", "")
