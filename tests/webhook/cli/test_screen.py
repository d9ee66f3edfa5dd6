"""A screen on which reports are redrawn in place."""

import io
from pathlib import Path

from rich.console import Group

from tests.harness.scenes import Scene
from tests.harness.served import serving
from tests.webhook.cli.terminals import Seen, a_console, terminal
from webhook.cli.terminal import Screen, Text


def flush(written: io.StringIO) -> str:
    text = written.getvalue()
    written.seek(0)
    written.truncate()
    return text


def lines(number: int, last: str) -> Group:
    return Group(*(Text(f"line {each}") for each in range(number - 1)), Text(last))


def test_a_picture_is_drawn_over_the_one_before() -> None:
    console, written = a_console(20, height=10)
    screen, seen = Screen(console), Seen(20, 10)
    for number, last in ((5, "one"), (3, "two"), (4, "three")):
        screen.show(lines(number, last), new=True)
        seen.write(flush(written))
        assert seen.text == "\n".join([*(f"line {each}" for each in range(number - 1)), last])


def test_a_line_that_is_longer_than_the_terminal_is_wide_counts_for_all_its_rows() -> None:
    console, written = a_console(20, height=10)
    screen, seen = Screen(console), Seen(20, 10)
    for length in (55, 41, 40, 7):
        text = "x" * length
        screen.show(Text(f"{text}", no_wrap=True, overflow="ignore"), new=False)
        seen.write(flush(written))
        assert seen.text.replace("\n", "") == text


def test_a_picture_that_is_taller_is_there_to_the_last_line() -> None:
    console, written = a_console(20, height=10)
    screen, seen = Screen(console), Seen(20, 10)
    screen.show(lines(30, "all of it"), new=True)
    seen.write(flush(written))
    whole = "\n".join([*(f"line {each}" for each in range(29)), "all of it"])
    assert seen.text == whole
    screen.show(lines(30, "all of it"), new=False)
    assert flush(written) == ""
    screen.show(lines(30, "more"), new=True)
    seen.write(flush(written))
    assert seen.text.startswith(whole)
    assert seen.text.endswith("line 28\nmore")
    screen.show(lines(3, "less"), new=True)
    seen.write(flush(written))
    screen.show(lines(3, "least"), new=True)
    seen.write(flush(written))
    assert seen.text.endswith("more\nline 0\nline 1\nleast")


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
