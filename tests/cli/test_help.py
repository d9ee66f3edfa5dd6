"""The help of every command is readable."""

import re

import pytest

from tests.cli.page import PAGE, page
from webhook.cli.main import COMMANDS, main

Capture = pytest.CaptureFixture[str]
NESTED = (("certs", "issue"), ("certs", "inspect"), ("settings", "check"), ("settings", "schema"))
ALL = (*((name,) for name in COMMANDS), *NESTED)


def helped(capsys: Capture, *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", ALL)
def test_help_tells_the_exit_status(words: tuple[str, ...], capsys: Capture) -> None:
    assert "exit status: 0" in " ".join(helped(capsys, *words).split())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_that_begin_with_the_program_or_use_it(
    command: str, capsys: Capture
) -> None:
    text = helped(capsys, command)
    examples = text.partition("examples:\n")[2].partition("\n\n")[0].splitlines()
    assert examples
    assert all(f"ray-webhook {command}" in line for line in examples)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_no_types_or_values_of_python(command: str, capsys: Capture) -> None:
    found = re.findall(
        r"\b(?:list|dict|str|int|float|None|True|False|Path)\b[\[\],]?|\['", _flags(capsys, command)
    )
    assert found == []


def _flags(capsys: Capture, command: str) -> str:
    return helped(capsys, command).partition("\nexamples:")[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_description_keeps_names_as_they_are_spelt(command: str, capsys: Capture) -> None:
    text = COMMANDS[command]
    assert f"{text[0].upper()}{text[1:]}." in " ".join(helped(capsys, command).split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["certs", "isue"], "there is no isue; did you mean issue?"),
        (["settings", "shcema"], "there is no shcema; did you mean schema?"),
        (["explain", "rul", "x"], "there is no rul; did you mean rule?"),
        (["status", "-o", "tabel"], "there is no tabel; did you mean table?"),
        (["serve", "--prot", "1"], "there is no argument --prot; did you mean --port?"),
        (["serve", "--tls.sorce=x"], "--tls.sorce=x; did you mean --tls.source?"),
        (
            ["controller", "--repair.per-hours", "x"],
            "--repair.per-hours; did you mean --repair.per-hour?",
        ),
        (["preview", "--sumary", "-f", "x"], "--sumary; did you mean --summary?"),
    ],
)
def test_what_is_mistyped_is_answered_with_what_was_meant(
    words: list[str], said: str, capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) <= 3


def test_rules_and_gates_are_named_when_they_are_mistyped(capsys: Capture) -> None:
    arguments = ["--rule", "tpu-topology-mismach=off", "--gate", "RayClusterMTL=true"]
    assert main(["validate", "-f", "examples", *arguments]) == 2
    err = capsys.readouterr().err
    assert "did you mean tpu-topology-mismatch?" in err
    assert "did you mean RayClusterMTLS?" in err


def test_shells_complete_the_flags_of_the_processes_too(capsys: Capture) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    for flag in ("--tls.source", "--repair.per-hour", "--summary"):
        assert flag in script


def test_the_page_of_the_commands_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.cli.page`"
