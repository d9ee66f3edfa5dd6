"""Write the hashes of pinned packages: `python -m tests.release.pins [--missing]`.

Each of `FILES` has `name==version` on its lines, each followed by the hashes
of the wheels for Linux (glibc 2.28 and later) and macOS. The hashes are those of pip's index, and
no address is stored. With `--missing`, packages that have hashes keep them.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from tests import ROOT

FILES: Final = (
    ROOT / "constraints.txt",
    ROOT / "tests" / "release" / "sbom.txt",
    ROOT / "tests" / "browser" / "requirements.txt",
    ROOT / "tests" / "lab" / "mutants" / "requirements.txt",
    ROOT / "tests" / "lab" / "rendezvous" / "requirements.txt",
    ROOT / "docs" / "requirements.txt",
)
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
_LINUX: Final = (*(f"manylinux_2_{minor}" for minor in range(28, 4, -1)), "manylinux2014", "linux")
PLATFORMS: Final = (
    tuple(f"{each}_x86_64" for each in _LINUX),
    tuple(f"{each}_aarch64" for each in _LINUX),
    ("macosx_14_0_arm64",),
)
"""Of each kind of machine, the tags of the wheels that it takes, the newest first."""

_PIN: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s\\]+)", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=(sha256:[0-9a-f]{64})")


class Wheel(NamedTuple):
    """A wheel that pip would take."""

    name: str
    digest: str
    anywhere: bool
    """Whether it is the same for all machines and Pythons."""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(text: str) -> dict[str, str]:
    return dict(_PIN.findall(text))


def read_hashes(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for block in re.split(r"\n(?=\S)", text):
        if pin := _PIN.match(block):
            found[normal(pin[1])] = set(_HASH.findall(block))
    return found


def written(pins: Mapping[str, str], hashes: Mapping[str, AbstractSet[str]]) -> str:
    blocks = []
    for name in sorted(pins, key=normal):
        lines = [f"{name}=={pins[name]}", *(f"--hash={each}" for each in sorted(hashes[name]))]
        blocks.append(" \\\n    ".join(lines) + "\n")
    return "".join(blocks)


def wheels(pins: Mapping[str, str], python: str, platform: Sequence[str]) -> Iterator[Wheel]:
    """Yield the wheels that pip would take on a kind of machine, without taking them.

    Raises RuntimeError when there is none, or pip's index tells no hash.
    """
    machine = [word for each in platform for word in ("--platform", each)]
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed"),
            *("--quiet", "--no-deps", "--only-binary", ":all:", "--target", folder),
            *("--implementation", "cp", "--python-version", python, *machine, "--report", "-"),
            *(f"{name}=={version}" for name, version in pins.items()),
        ]
        # A folder with wheels of one's own says nothing of those that others get.
        environment = {key: each for key, each in os.environ.items() if key != "PIP_FIND_LINKS"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"Python {python} on {platform[0]}: {done.stderr.strip()}")
    for item in json.loads(done.stdout)["install"]:
        source = item["download_info"]
        digest = source.get("archive_info", {}).get("hashes", {}).get("sha256")
        if not digest:
            raise RuntimeError(f"pip's index tells no hash of {item['metadata']['name']}")
        anywhere = source["url"].endswith("-none-any.whl")
        yield Wheel(normal(item["metadata"]["name"]), f"sha256:{digest}", anywhere)


Ask = Callable[[Mapping[str, str], str, Sequence[str]], Iterable[Wheel]]


def refreshed(text: str, ask: Ask = wheels, *, missing: bool = False) -> str:
    """Return a file of pins with the hashes that it should have, as `ask` finds them; with
    `missing`, only of those that have none.
    """
    pins = read_pins(text)
    by_name = {normal(name): name for name in pins}
    hashes: dict[str, set[str]] = defaultdict(set)
    if missing:
        hashes |= {by_name[name]: each for name, each in read_hashes(text).items() if each}
    wanted = {name: version for name, version in pins.items() if name not in hashes}
    for platform in PLATFORMS:
        for python in PYTHONS:
            found = list(ask(wanted, python, platform)) if wanted else []
            for wheel in found:
                hashes[by_name[wheel.name]].add(wheel.digest)
            same = {by_name[wheel.name] for wheel in found if wheel.anywhere}
            wanted = {name: each for name, each in wanted.items() if name not in same}
    return written(pins, hashes)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.release.pins", description=__doc__)
    parser.add_argument("--missing", action="store_true")
    arguments = parser.parse_args()
    for file in FILES:
        try:
            file.write_text(refreshed(file.read_text(), missing=arguments.missing))
        except RuntimeError as error:
            sys.stderr.write(f"{file.name}: {error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
