"""Pins: every installed package has a version and hashes, and no address."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence

import pytest

from tests import ROOT
from tests.release.pins import (
    FILES,
    PLATFORMS,
    PYTHONS,
    Wheel,
    normal,
    read_hashes,
    read_pins,
    refreshed,
    written,
)

ONE, OTHER = (f"sha256:{digit * 64}" for digit in "ab")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_pin_has_hashes_and_nothing_else_is_in_the_file(file: str) -> None:
    text = (ROOT / file).read_text()
    pins, hashes = read_pins(text), read_hashes(text)
    assert pins
    assert {normal(name) for name in pins} == hashes.keys()
    assert all(hashes.values())
    assert written(pins, {name: hashes[normal(name)] for name in pins}) == text


def test_what_the_project_asks_for_is_pinned_that_of_its_build_too() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = ["pip", "editables", *project["build-system"]["requires"]]
    asked += project["project"]["dependencies"]
    extras = project["project"].get("optional-dependencies", {})
    for group in [*project["dependency-groups"].values(), *extras.values()]:
        asked += [each for each in group if not each.startswith("ray-webhook")]
    wanted = {normal(re.split(r"[^A-Za-z0-9._-]", each)[0]) for each in asked}
    assert wanted <= read_hashes((ROOT / "constraints.txt").read_text()).keys()


def test_a_wheel_for_all_machines_is_asked_for_once_and_others_for_each() -> None:
    asked: list[tuple[str, ...]] = []

    def ask(pins: Mapping[str, str], python: str, platform: Sequence[str]) -> Iterator[Wheel]:
        asked.append((*pins, python, platform[0]))
        for name in pins:
            pure = name == "pure"
            digest = ONE if pure or platform != PLATFORMS[-1] else OTHER
            yield Wheel(name, digest, anywhere=pure)

    text = refreshed(f"native==2 \\\n    --hash={OTHER}\npure==1\n", ask)
    assert read_hashes(text) == {"pure": {ONE}, "native": {ONE, OTHER}}
    assert text.startswith(f"native==2 \\\n    --hash={ONE} \\\n    --hash={OTHER}\npure==1")
    assert sum("pure" in each for each in asked) == 1
    assert sum("native" in each for each in asked) == len(asked) == len(PYTHONS) * len(PLATFORMS)


def test_packages_that_have_hashes_may_keep_them() -> None:
    asked: list[str] = []

    def ask(pins: Mapping[str, str], _python: str, _platform: Sequence[str]) -> Iterator[Wheel]:
        asked.extend(pins)
        yield from (Wheel(name, ONE, anywhere=True) for name in pins)

    text = refreshed(f"old==1 \\\n    --hash={OTHER}\nnew==2\n", ask, missing=True)
    assert read_hashes(text) == {"old": {OTHER}, "new": {ONE}}
    assert asked == ["new"]
