"""Build the image: `python -m tests.release.image [TAG]`, by docker or buildah.

Without either, the program runs the steps of the Dockerfile's build stage in a plain directory, and
tests the installation: its size, and that the processes start from it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from tests import ROOT
from webhook import __version__

TEXT: Final = (ROOT / "Dockerfile").read_text()
MEGABYTES: Final = 88
"""Of what is installed above the base of 120 MB, so that the image has at most 200 MB."""

_PATHS: Final = re.compile(r"(?<![\w.-])/(wheels|opt/ray-webhook)\b")
_STARTS: Final = (
    ["--version"],
    ["settings", "check"],
    *([each, "--help"] for each in ("serve", "controller", "check")),
)


class Stage(NamedTuple):
    """One stage: its base image and its instructions."""

    base: str
    instructions: list[tuple[str, str]]

    def arguments(self, word: str) -> list[str]:
        return [text for instruction, text in self.instructions if instruction == word]


def stages() -> list[Stage]:
    found = [Stage("", [])]
    joined = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^\s*#.*\n", "", TEXT))
    for line in filter(None, joined.splitlines()):
        word, _, text = line.partition(" ")
        if word == "FROM":
            found.append(Stage(text.split()[0], []))
        else:
            found[-1].instructions.append((word, text.strip()))
    return found


def build_in(folder: Path) -> Path:
    """Run the steps of the build stage with this Python, and return what they install."""
    _, build, _ = stages()
    source = folder / "source"
    source.mkdir()
    for text in build.arguments("COPY"):
        *copied, _ = text.split()
        for each in copied:
            _copy(ROOT / each, source / each)
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": "0",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for command in build.arguments("RUN"):
        moved = _PATHS.sub(rf"{folder}/\1", command)
        subprocess.run(
            ["sh", "-ec", moved], cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL
        )
    return folder / "opt" / "ray-webhook"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def megabytes(folder: Path) -> float:
    return sum(each.lstat().st_size for each in folder.rglob("*") if not each.is_dir()) / 1e6


def try_steps() -> int:
    """Run the steps in a plain folder, and return 1 when what they install is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        installed = build_in(Path(folder))
        size = megabytes(installed)
        print(f"no docker or buildah: ran the steps in a folder; {size:.0f} MB above the base")
        for words in _STARTS:
            subprocess.run(
                [installed / "bin" / "ray-webhook", *words], check=True, stdout=subprocess.DEVNULL
            )
    return 1 if size > MEGABYTES else 0


def base() -> int:
    """Print the arguments of a release's image: the base with its digest for all platforms, by
    docker, and version, revision and time of the commit.
    """
    asked = ["docker", "buildx", "imagetools", "inspect", base_image(), "--format"]
    digest = _said(*asked, "{{.Manifest.Digest}}")
    print(f"base={base_image()}@{digest}\ndigest={digest}")
    print(f"version={__version__}\nrevision={_said('git', 'rev-parse', 'HEAD')}")
    print(f"time={committed()}")
    return 0


def base_image() -> str:
    (argument,) = stages()[0].arguments("ARG")
    return argument.removeprefix("BASE=")


def committed() -> str:
    return _said("git", "log", "-1", "--format=%ct")


def _said(*command: str) -> str:
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return found.stdout.strip()


def main(tag: str = f"ray-webhook:{__version__}") -> int:
    for program in ("docker", "buildah"):
        if (
            shutil.which(program)
            and not subprocess.run([program, "info"], capture_output=True, check=False).returncode
        ):
            return _build(program, tag)
    return try_steps()


def _build(program: str, tag: str) -> int:
    image = base_image()
    subprocess.run([program, "pull", image], check=True)
    inspected = {
        "docker": ["image", "inspect", "--format", "{{index .RepoDigests 0}}"],
        "buildah": ["inspect", "--type", "image", "--format", "{{.FromImageDigest}}"],
    }[program]
    digest = _said(program, *inspected, image).rpartition("@")[2]
    arguments = [f"BASE={image}@{digest}", f"SOURCE_DATE_EPOCH={committed()}"]
    flags = [word for each in arguments for word in ("--build-arg", each)]
    return subprocess.run(
        [program, "build", *flags, "-t", tag, "."], cwd=ROOT, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(base() if sys.argv[1:] == ["base"] else main(*sys.argv[1:]))
