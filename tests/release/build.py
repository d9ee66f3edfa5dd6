"""Build a release into dist/: `python -m tests.release.build [TAG]`.

The release consists of the wheel, the source distribution, the chart, its rendered manifests and
the examples of all rules, each built twice with equal results, their checksums and, with a tag, the
release notes. Exit code 1: versions differ or are invalid.
"""

import gzip
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from tests import ROOT
from tests.manifests.render import IMAGE, REGISTRY, run
from tests.release.checksums import SUMS, checksums
from tests.release.image import committed
from tests.webhook.validation.conformance import suite
from webhook import __version__

CHART: Final = ROOT / "manifests" / "chart"
CHANGELOG: Final = ROOT / "CHANGELOG.md"
DIST: Final = ROOT / "dist"
REGISTRY_VARIABLE: Final = "REGISTRY"
INSTALLED: Final = {"install.yaml": "manifests", "install-cert-manager.yaml": "certs/overlay"}
"""Files that install the webhook without Helm, with their kustomizations."""
NEEDED: Final = (
    "webhook/py.typed", "webhook/cli/main.py", "webhook/validation/crd_table.json",
    "webhook/validation/feature_gates.json", "webhook/docs/rules/accelerators.md",
    "webhook/docs/diagnoses.md", "dist-info/licenses/LICENSE",
)  # fmt: skip
"""What has to be in a wheel, by the end of its path."""


def problems(tag: str = "") -> Iterator[str]:
    """Yield what prevents a release, under this tag if there is one."""
    if tag and tag != f"v{__version__}":
        yield f"the tag is {tag}, and the package is {__version__}: tag the commit v{__version__}"
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    for name in ("version", "appVersion"):
        if str(chart[name]) != __version__:
            yield f"Chart.yaml has {name} {chart[name]}, and the package is {__version__}"
    if tag and not os.environ.get(REGISTRY_VARIABLE):
        yield f"{REGISTRY_VARIABLE} is not set: name the registry that install.yaml pulls from"
    if tag and "example.com" in repository():
        yield "pyproject.toml has a placeholder in project.urls: write the URL of the repository"
    if tag and f"\n## {__version__}" not in CHANGELOG.read_text():
        yield f"CHANGELOG.md has no section {__version__}: give Unreleased that name, and a date"


def repository() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["urls"]["Repository"])


def build(folder: Path, epoch: int) -> list[Path]:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    chart = folder / f"ray-webhook-{__version__}.tgz"
    chart.write_bytes(packed(CHART, epoch))
    for name, kustomization in INSTALLED.items():
        (folder / name).write_text(manifests(kustomization))
    (folder / "rules.yaml").write_text(suite(), encoding="utf-8")
    return sorted(folder.iterdir())


def manifests(kustomization: str) -> str:
    """Return the manifests of a kustomization with the image in the registry of the release."""
    text = run("kustomize", "build", str(ROOT / kustomization)).stdout
    registry = os.environ.get(REGISTRY_VARIABLE) or REGISTRY
    return text.replace(f"image: {IMAGE}:", f"image: {registry}/ray-webhook:")


def packed(folder: Path, epoch: int) -> bytes:
    """Return a chart as Helm packages it, but with one time, no owner, and the license."""
    files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    files[Path("LICENSE")] = ROOT / "LICENSE"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in sorted(files.items()):
            data = path.read_bytes()
            entry = tarfile.TarInfo(f"ray-webhook/{name.as_posix()}")
            entry.size, entry.mtime, entry.mode = len(data), epoch, 0o644
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=epoch)


def wrong(wheel: Path) -> Iterator[str]:
    with zipfile.ZipFile(wheel) as archive:
        held = archive.namelist()
    yield from (
        f"{wheel.name} lacks {end}"
        for end in NEEDED
        if not any(each.endswith(end) for each in held)
    )
    yield from (f"{wheel.name} has {each}" for each in held if each.startswith("tests/"))
    shown = subprocess.run(
        [sys.executable, "-m", "webhook.cli.main", "--version"],
        env={**os.environ, "PYTHONPATH": str(wheel)}, cwd=wheel.parent, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    if shown.stdout.strip() != __version__:
        yield f"{wheel.name} does not run: {shown.stderr.strip()}"


def notes(changelog: str) -> str:
    """Return the section of the changelog about this version, without its heading."""
    _, _, rest = changelog.partition(f"\n## {__version__}")
    return rest.partition("\n")[2].partition("\n## ")[0].strip() + "\n"


def main(tag: str = "") -> int:
    found = list(problems(tag))
    epoch = int(committed())
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        files = build(Path(one), epoch)
        again = build(Path(other), epoch)
        if checksums(files) != checksums(again):
            found.append("two builds are not alike")
        (wheel,) = (file for file in files if file.suffix == ".whl")
        found += wrong(wheel)
        if not found:
            DIST.mkdir(exist_ok=True)
            for file in files:
                (DIST / file.name).write_bytes(file.read_bytes())
            (DIST / SUMS).write_text(checksums(files))
            if tag:
                (DIST / "NOTES.md").write_text(notes(CHANGELOG.read_text()))
    sys.stderr.writelines(f"{each}\n" for each in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
