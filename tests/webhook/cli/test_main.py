"""The program as a whole: help, mistyped arguments, and early termination."""

import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests import ROOT
from tests.builders import NAMESPACE
from tests.harness.running import Run
from tests.harness.scenes import Scene
from tests.harness.served import Server, serving
from webhook import __version__
from webhook.cli.main import COMMANDS, EXTRAS, installing

Done = subprocess.CompletedProcess[str]
PROGRAM = [sys.executable, "-m", "webhook.cli.main"]
NESTED = (("certs", "issue"), ("certs", "inspect"), ("settings", "check"), ("settings", "schema"))
PYTHON = r"\b(?:list|dict|str|int|float|None|True|False|Path)\b[\[\],]?|\['"


@pytest.mark.parametrize("words", [*((name,) for name in COMMANDS), *NESTED])
def test_help_is_readable(words: tuple[str, ...], run: Run) -> None:
    status, out, _ = run(*words, "--help")
    text = " ".join(out.split())
    assert (status, "exit status: 0" in text) == (0, True)
    assert re.findall(PYTHON, out.partition("\nexamples:")[0]) == []
    if words[0] == words[-1]:
        (command,) = words
        summary = COMMANDS[command]
        assert f"{summary[0].upper()}{summary[1:]}." in text
        examples = out.partition("examples:\n")[2].partition("\n\n")[0].splitlines()
        assert examples
        assert all(f"ray-webhook {command}" in line for line in examples)


def test_help_has_the_values_of_a_setting_or_their_type(run: Run) -> None:
    out = run("serve", "--help").out
    assert "\n  --port NUMBER, --serving.port NUMBER\n" in out
    assert "\n  --log.admissions all|denied\n" in out


@pytest.mark.parametrize(("words", "flags"), [
    (["help"], ["--help"]),
    (["help", "validate"], ["validate", "--help"]),
    (["help", "certs", "issue"], ["certs", "issue", "--help"]),
    (["version"], ["--version"]), (["-version"], ["--version"]), (["-help"], ["--help"]),
    (["validate", "-help"], ["validate", "--help"]),
])  # fmt: skip
def test_help_and_version_are_commands_too(words: list[str], flags: list[str], run: Run) -> None:
    ended = run(*words)
    assert ended == run(*flags)
    assert (ended.status, bool(ended.out)) == (0, True)


@pytest.mark.parametrize(("words", "said"), [
    ([], "the following arguments are required: COMMAND"),
    (["statsu"], "ray-webhook: there is no command statsu; did you mean status?\n"),
    (["--verison"], "there is no argument --verison; did you mean --version?"),
    (["-v"], "there is no argument -v: there are --help, --version, -h"),
    (["-n", "team", "status"], "write arguments such as -n after the command status"),
    (["validate", "--version"], "--version; `ray-webhook version` prints the version"),
    (["serve", "-version"], "--version; `ray-webhook version` prints the version"),
    (["mutate"], "there is no command mutate: there are certs, check, completion, controller"),
    (["certs", "isue"], "there is no isue; did you mean issue?"),
    (["explain", "rul", "x"], "there is no kind rul; did you mean rule?"),
    (["explain", "tpu-topology-mismach"], "did you mean tpu-topology-mismatch?"),
    (["explain", "QQQ"],
     "there is no rule, variable, diagnosis, profile, annotation QQQ; `ray-webhook"),
    (["status", "-o", "tabel"], "there is no tabel; did you mean table?"),
    (["status", "--wach"], "there is no argument --wach; did you mean --watch?"),
    (["serve", "--tls.sorce=x"], "--tls.sorce=x; did you mean --tls.source?"),
    (["controller", "--ignore.rayclustrs", "x"], "did you mean --ignore.rayclusters?"),
])  # fmt: skip
def test_a_mistyped_word_gets_a_similar_one(words: list[str], said: str, run: Run) -> None:
    status, _, err = run(*words)
    assert (status, said in err) == (2, True)
    assert len(err.splitlines()) <= 3


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_can_complete_every_command_and_its_flags(shell: str, run: Run) -> None:
    script = run("completion", shell).out
    flags = ("--watch", "--all-namespaces", "--pre", "--multi-host-indexing", "--tls.source")
    for word in (*COMMANDS, *flags, "--affinity.apart", "--summary"):
        assert word in script


def run_to(stream: IO[str], *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [*PROGRAM, *arguments], stdout=stream, stderr=subprocess.PIPE, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", [
    ("explain", "diagnosis", "host-missing"), ("certs", "issue", "--dir"), ("validate", "--help"),
    ("--version",),
])  # fmt: skip
def test_a_full_disk_is_a_plain_error(arguments: Sequence[str], tmp_path: Path) -> None:
    folder = [str(tmp_path)] if arguments[-1] == "--dir" else []
    with Path("/dev/full").open("w") as full:
        status, err = run_to(full, *arguments, *folder)
    said = "the output cannot be written: no space is left on the device"
    name = " ".join(("ray-webhook", arguments[0])).removesuffix(" --version")
    assert (status, err) == (2, f"{name}: {said}\n")


def test_a_reader_that_exits_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        assert run_to(closed, "explain", "diagnosis", "host-missing") == (0, "")


@contextmanager
def watching(scene: Scene, folder: Path) -> Iterator[tuple[Server, "subprocess.Popen[str]"]]:
    with serving(scene, folder) as (server, kubeconfig):
        command = [*PROGRAM, "status", "--watch", "--kubeconfig", str(kubeconfig)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            read_until(process, "none degraded")
            yield server, process


def read_until(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stdout is not None
    assert any(text in line for line in iter(process.stdout.readline, ""))


def interrupted(process: "subprocess.Popen[str]") -> tuple[int, str]:
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def test_a_watch_shows_changes_and_ends_by_ctrl_c(tmp_path: Path) -> None:
    scene = Scene()
    with watching(scene, tmp_path) as (server, process):
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        while pods not in dict(server.watches):
            time.sleep(0.05)
        server.tell(pods, "DELETED", scene.pods["llama-tpu-worker-0-3"])
        read_until(process, "host 3 missing")
        assert interrupted(process) == (1, "")
    with watching(Scene(), tmp_path) as (_, process):
        assert interrupted(process) == (0, "")


LIGHT = """
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refusing())
from webhook.cli.main import main
sys.exit(max([main(each) for each in {commands}]))
"""
EXTRA = {
    "aiohttp", "cryptography", "fastapi", "httptools", "kubernetes", "prometheus_client",
    "pydantic", "pydantic_settings", "rich", "starlette", "uvicorn", "uvloop", "yarl",
}  # fmt: skip
POSIX = {"fcntl", "grp", "pwd", "resource", "termios", "tty", "pty"}
RARE = {"asyncio", "email", "http", "ssl", "xml", "zoneinfo"}
"""Modules of Python that take time, and serve only some formats and cron expressions."""


def light(*commands: Sequence[str], without: AbstractSet[str] = EXTRA | POSIX) -> Done:
    """Run commands where no extra is installed, and that is no POSIX system."""
    code = LIGHT.format(refused=set(without), commands=commands)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize(("arguments", "without"), [
    ("validate -f examples/gpu-2x8.yaml", RARE), ("validate -f examples -o sarif", set()),
    ("preview -f examples/tpu-v4-2x2x2.yaml --explain", set()),
    ("preview -f examples/gpu-2x8.yaml -o yaml", set()), ("completion bash", set()),
    ("explain tpu-topology-mismatch", set()), ("explain diagnosis", set()), ("--help", set()),
])  # fmt: skip
def test_light_commands_need_no_extra_and_no_posix(arguments: str, without: set[str]) -> None:
    done = light(arguments.split(), without=EXTRA | POSIX | without)
    assert done.returncode == 0, done.stderr


def test_the_other_commands_say_what_to_install() -> None:
    more = {"validate": ["--cluster"], "explain": ["pod", "a"]}
    done = light(*[[command, *more.get(command, [])] for command in EXTRAS])
    assert done.returncode == 2
    named = re.findall(r"pip install '\.\[(.*)\]' in the checkout", done.stderr)
    assert named == [*EXTRAS.values()]


@pytest.mark.parametrize(("prefix", "command"), [
    ("/home/me/.venv", "pip install"),
    ("/home/me/.local/share/pipx/venvs/ray-webhook", "pipx install --force"),
])  # fmt: skip
def test_an_installed_wheel_names_the_extra_to_add(
    prefix: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhook.cli.main.__file__", str(tmp_path / "webhook" / "cli" / "main.py"))
    monkeypatch.setattr(sys, "prefix", prefix)
    wheel = f"ray_webhook-{__version__}-py3-none-any.whl"
    assert installing("cluster") == (
        f"add the extra cluster to the wheel: {command} './{wheel}[cluster]'"
    )


def test_each_command_has_the_packages_of_its_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == set(EXTRAS.values())


@pytest.mark.parametrize("error", [
    ValueError("odd"), OSError("odd"), ModuleNotFoundError("odd"),
    ModuleNotFoundError("odd", name="webhook.cli.odd"),
])  # fmt: skip
def test_a_bug_ends_with_2_because_1_is_a_denial(
    error: Exception, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    def run_with_a_bug(_arguments: object) -> int:
        raise error

    monkeypatch.setattr("webhook.cli.explain.run", run_with_a_bug)
    status, _, err = run("explain", "rule", "tpu-topology-mismatch")
    assert (status, "Traceback" in err) == (2, True)
    bug = "ray-webhook explain: a bug of ray-webhook, please report it:"
    assert f"{bug} {type(error).__name__}: odd\n" in err
