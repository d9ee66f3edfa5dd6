"""README and docs are correct: their commands run, their files exist, and tables match the code."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests import ROOT
from tests.browser.pictures import FOLDER, TEXTS, WINDOWS, digest_of
from tests.demo.__main__ import FACTS
from tests.harness.scenes import Scene
from tests.pages.markdown import COLUMNS, folded, prose
from tests.pages.test_contributing import PUBLIC
from tests.pages.test_links import PAGES
from webhook.api import names
from webhook.cli.main import main

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if line]
TARGETS = re.findall(r"`make ([a-z0-9-]+)", README) + [
    line.split()[1] for line in COMMANDS if line.startswith("make ")
]
ENDS = {".venv/bin/ray-webhook validate tests/demo/broken.yaml": 1}
"""Exit codes that are not 0."""


@pytest.mark.parametrize("command", [line for line in COMMANDS if "ray-webhook" in line])
def test_each_command_runs_as_written(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    program, *words = shlex.split(command)
    assert program == ".venv/bin/ray-webhook"
    assert main(words) == ENDS.get(command, 0)
    assert "".join(capsys.readouterr())


def test_each_make_target_exists() -> None:
    assert {*TARGETS} <= PUBLIC.keys()


def test_two_commands_set_everything_up() -> None:
    assert BLOCKS[0].splitlines() == ["make demo", "make test"]


@pytest.mark.parametrize("page", PAGES)
def test_prose_has_lines_of_100_columns_but_for_a_word_that_is_longer(page: Path) -> None:
    lines = [line for _, line in prose(page.read_text()) if len(line) > COLUMNS]
    assert [line for line in lines if " " in re.sub("^ *(- )?(<a id)?", "", line)] == []


def test_a_page_is_folded_from_its_first_line_that_is_too_long() -> None:
    word, line = "w" * 49, "x" * 101
    long = f"{word} {word} {word}"
    page = f"short\n{long}\nnext\n\n- {long}\n- one\n\n{line}\n\n| {long} |\n```\n{long}\n```\n"
    assert folded(page) == (
        f"short\n{word} {word}\n{word} next\n\n- {word}\n  {word}\n  {word}\n- one\n\n{line}\n\n"
        f"| {long} |\n```\n{long}\n```\n"
    )


def test_every_variable_in_the_table_is_one_that_the_code_knows() -> None:
    known = {
        value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)
    }
    table = README.split("## What a pod receives")[1].split("Annotations on")[0]
    variables = set(re.findall(r"`([A-Z][A-Z_]+[A-Z])`", table))
    assert variables
    assert variables <= known


def test_the_picture_shows_the_names_that_the_webhook_gives() -> None:
    texts = re.findall(r">([^<>]*[^<>\s][^<>]*)<", (ROOT / "docs" / "why-it-hangs.svg").read_text())
    scene, hosts = Scene(), range(4)
    pods = [scene.pods[f"llama-tpu-worker-0-{host}"] for host in hosts]
    first = pods[0]["spec"]
    assert f"{first['hostname']}.{first['subdomain']}" in texts
    indices = [pod["metadata"]["labels"][names.LABEL_HOST_INDEX] for pod in pods]
    assert [text for text in texts if text.startswith("host ")] == [f"host {i}" for i in indices]
    assert texts.count(f"of {len(pods)}") == len(pods)


def test_the_texts_of_the_screenshots_were_written_with_them() -> None:
    """To take them again: `python -m tests.browser.pictures`."""
    pictures = json.loads(TEXTS.read_text(encoding="utf-8"))
    files = sorted(path.stem for path in FOLDER.glob("*.png"))
    assert files == sorted(pictures) == sorted(WINDOWS)
    assert {name: digest_of(name) for name in files} == {
        name: picture["sha256"] for name, picture in pictures.items()
    }


def test_the_demo_shows_what_the_readme_quotes() -> None:
    source = (ROOT / "tests" / "demo" / "__main__.py").read_text()
    claims = re.findall(r"^   ok   (host 1 .*|the middle .*|and that .*)$", README, re.MULTILINE)
    assert len(claims) == 3
    assert all(claim in source for claim in claims)
    assert all(f"\n{fact}" in README for fact in FACTS)
