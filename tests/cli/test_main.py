"""The program as a whole: mistyped arguments, and early termination."""

import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

from tests.builders import NAMESPACE
from tests.diagnostics.scenes import Scene
from tests.diagnostics.served import serving
from webhook.cli.main import COMMANDS, EXTRAS, main

ROOT = Path(__file__).parents[2]
Capture = pytest.CaptureFixture[str]
Done = subprocess.CompletedProcess[str]
PROGRAM = [sys.executable, "-m", "webhook.cli.main"]


def test_the_nearest_command_is_named(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["statsu"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(
        "ray-webhook: there is no command statsu; did you mean status?\n"
    )


def test_a_command_like_no_other_is_answered_with_all_of_them(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["xyzzy"])
    assert (
        "there are certs, check, completion, controller, dashboard, diff" in capsys.readouterr().err
    )


def test_the_nearest_flag_is_named(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["status", "--wach"])
    assert ended.value.code == 2
    assert "there is no argument --wach; did you mean --watch?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["help"], ["--help"]),
        (["help", "validate"], ["validate", "--help"]),
        (["help", "certs", "issue"], ["certs", "issue", "--help"]),
        (["version"], ["--version"]),
    ],
)
def test_help_and_version_are_commands_too(
    words: list[str], flags: list[str], capsys: Capture
) -> None:
    printed = []
    for each in (words, flags):
        with pytest.raises(SystemExit) as ended:
            main(each)
        assert ended.value.code == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert printed[0]


@pytest.mark.parametrize("word", ["cats", "mutate", "versoin"])
def test_only_a_similar_command_is_suggested(word: str, capsys: Capture) -> None:
    similar = {"cats": "certs", "versoin": "version"}
    with pytest.raises(SystemExit):
        main([word])
    err = capsys.readouterr().err
    assert ("did you mean" in err) == (word in similar)
    assert similar.get(word, "there are ") in err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_can_complete_every_command_and_its_flags(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in (*COMMANDS, "--watch", "--all-namespaces", "--pre", "--multi-host-indexing"):
        assert word in script


def test_a_full_disk_is_told_without_a_traceback() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, "explain", "diagnosis", "host-missing"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert (
        done.stderr
        == "ray-webhook explain: the output cannot be written: no space is left on the device\n"
    )


def test_a_reader_that_has_had_enough_is_no_problem() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run(
            [*PROGRAM, "explain", "diagnosis", "host-missing"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_watch_shows_what_changes(tmp_path: Path) -> None:
    scene = Scene()
    lost = "llama-tpu-worker-0-3"
    with serving(scene, tmp_path) as (server, kubeconfig):
        command = [*PROGRAM, "status", "--watch", "--kubeconfig", str(kubeconfig)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as watching:
            assert watching.stdout is not None
            lines = iter(watching.stdout.readline, "")
            assert any("nothing waits" in line for line in lines)
            pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
            while pods not in dict(server.watches):
                time.sleep(0.05)
            server.tell(pods, "DELETED", scene.pods[lost])
            assert any("host 3 missing" in line for line in lines)
            watching.send_signal(signal.SIGINT)
            _, problems = watching.communicate(timeout=20)
    assert problems == ""
    assert watching.returncode == 1


def test_ctrl_c_ends_a_watch_without_a_traceback(tmp_path: Path) -> None:
    with serving(Scene(), tmp_path) as (_, kubeconfig):
        command = [*PROGRAM, "status", "--watch", "--kubeconfig", str(kubeconfig)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as watching:
            assert watching.stdout is not None
            while "nothing waits" not in watching.stdout.readline():
                pass
            watching.send_signal(signal.SIGINT)
            _, problems = watching.communicate(timeout=20)
    assert problems == ""
    assert watching.returncode == 0


LIGHT = """
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refusing())
from webhook.cli.main import main
sys.exit(main({arguments}))
"""
EXTRA = {
    "aiohttp", "cryptography", "fastapi", "httptools", "kubernetes", "prometheus_client",
    "pydantic", "pydantic_settings", "rich", "starlette", "uvicorn", "uvloop", "yarl",
}  # fmt: skip
POSIX = {"fcntl", "grp", "pwd", "resource", "termios", "tty", "pty"}


RARE = {"asyncio", "email", "http", "ssl", "xml", "zoneinfo"}
"""Modules of Python that take time, and serve only some formats and cron expressions."""


def light(*arguments: str, without: AbstractSet[str] = EXTRA | POSIX) -> Done:
    """Run a command where only what the package itself brings is installed, on no POSIX system."""
    code = LIGHT.format(refused=set(without), arguments=list(arguments))
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize(
    "arguments",
    [
        ("validate", "-f", "examples/gpu-2x8.yaml"),
        ("validate", "-f", "examples", "-o", "sarif"),
        ("preview", "-f", "examples/tpu-v4-2x2x2.yaml", "--explain"),
        ("preview", "-f", "examples/gpu-2x8.yaml", "-o", "yaml"),
        ("completion", "bash"),
        ("--help",),
    ],
)
def test_light_commands_need_nothing_but_the_package_and_no_posix(
    arguments: tuple[str, ...],
) -> None:
    done = light(*arguments)
    assert done.returncode == 0, done.stderr


def test_validate_starts_without_what_it_rarely_needs() -> None:
    done = light("validate", "-f", "examples/gpu-2x8.yaml", without=EXTRA | POSIX | RARE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [*EXTRAS, "validate"])
def test_the_other_commands_say_what_to_install(command: str) -> None:
    arguments = {"validate": ["--cluster"], "migrate": ["--from", "x"]}.get(command, [])
    done = light(command, *arguments)
    assert done.returncode == 2
    assert f"pip install '.[{EXTRAS[command]}]' in a checkout" in done.stderr


def test_each_command_has_the_packages_of_its_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == set(EXTRAS.values())


def test_a_bug_ends_with_2_because_1_says_that_an_object_was_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_with_a_bug(_arguments: object) -> int:
        raise ValueError("odd")

    monkeypatch.setattr("webhook.cli.explain.run", run_with_a_bug)
    assert main(["explain", "rule", "tpu-topology-mismatch"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "ray-webhook explain: a bug of ray-webhook, please report it: ValueError: odd" in err
