"""The program as a whole: what is mistyped, and ends that come too early."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.status.scenes import Scene
from tests.status.served import serving
from webhook.cli.main import COMMANDS, main

Capture = pytest.CaptureFixture[str]
PROGRAM = [sys.executable, "-m", "webhook.cli.main"]


def test_the_nearest_command_is_named(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["statsu"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith("ray-webhook: there is no command statsu; did you mean status?\n")


def test_a_command_like_no_other_is_answered_with_all_of_them(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["xyzzy"])
    assert "there are certs, check, completion, controller, diff" in capsys.readouterr().err


def test_the_nearest_flag_is_named(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["status", "--wach"])
    assert ended.value.code == 2
    assert "there is no argument --wach; did you mean --watch?" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_can_complete_every_command_and_its_flags(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in (*COMMANDS, "--watch", "--all-namespaces", "--pre", "--multi-host-indexing"):
        assert word in script


def test_a_full_disk_is_told_without_a_traceback() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, "explain", "diagnosis", "host-missing"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "ray-webhook explain: the output cannot be written: no space is left on the device\n"


def test_a_reader_that_has_had_enough_is_no_trouble() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run(
            [*PROGRAM, "explain", "diagnosis", "host-missing"], stdout=closed, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_ends_a_watch_without_a_traceback(tmp_path: Path) -> None:
    with serving(Scene(), tmp_path) as (_, kubeconfig):
        command = [*PROGRAM, "status", "--watch", "--kubeconfig", str(kubeconfig)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
            assert watching.stdout is not None
            while "nothing waits" not in watching.stdout.readline():
                pass
            watching.send_signal(signal.SIGINT)
            _, problems = watching.communicate(timeout=20)
    assert problems == ""
    assert watching.returncode == 0
