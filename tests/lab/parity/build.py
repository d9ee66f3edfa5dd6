"""Build the programs with KubeRay's and Kubernetes' own code; find KubeRay's CRDs and samples."""

import json
from pathlib import Path
from typing import NamedTuple

import yaml

from tests import ROOT
from tests.e2e import go
from tests.e2e.build import KUBERAY_MODULE, given_sources
from tests.e2e.versions import PINS, UNPUBLISHED, source_folder
from webhook.cache.kuberay_release import release_in
from webhook.validation.finding import KubeRay

HERE = Path(__file__).resolve().parent
CACHE = ROOT / ".cache" / "parity"
KUBERNETES = ("1.34.4", "1.37.0")
"""The versions that check pods: the oldest and the newest of the pairs that the stories run on."""


class Built(NamedTuple):
    """A program, and the folder with the sources of KubeRay that it is built from."""

    program: Path
    source: Path

    @property
    def crds(self) -> Path:
        return self.source / "config" / "crd" / "bases"

    @property
    def samples(self) -> Path:
        return self.source / "config" / "samples"

    @property
    def release(self) -> KubeRay | None:
        """The release that `serve` takes KubeRay for where these CRDs are stored."""
        definition = yaml.safe_load((self.crds / "ray.io_rayclusters.yaml").read_bytes())
        return release_in(json.dumps(definition).encode())


def versions() -> list[str]:
    found = [path.parent.name for path in (HERE / "program").glob("*/go.mod")]
    return sorted(found, key=lambda version: [int(number) for number in version.split(".")])


def published() -> list[str]:
    return [version for version in versions() if version != UNPUBLISHED.kuberay]


def available() -> list[str]:
    """Return the versions of KubeRay whose sources a module or a given folder has."""
    return versions() if source_folder() else published()


def build(version: str) -> Built:
    folder = folder_of(version)
    source = go.module_folder(folder, KUBERAY_MODULE)
    # Without paths, it shares Go's cache with what `tests.e2e.build` builds of the same modules
    go.run(folder, "build", "-trimpath", "-buildvcs=false", "-o", "parity", ".")
    return Built(folder / "parity", source)


def build_api_server(version: str) -> Path:
    folder = CACHE / f"kubernetes-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    for source in (HERE / "apiserver" / "main.go", *(PINS / "kubernetes" / version).glob("go.*")):
        _copy(source, folder / source.name)
    go.run(folder, "build", "-trimpath", "-buildvcs=false", "-o", "apiserver", ".")
    return folder / "apiserver"


def folder_of(version: str) -> Path:
    folder = CACHE / version
    folder.mkdir(parents=True, exist_ok=True)
    programs = HERE / "program"
    shared = programs.glob("*.go")
    for source in (*shared, _operator(version), *(programs / version).iterdir()):
        _copy(source, folder / source.name)
    if version == UNPUBLISHED.kuberay:
        link = folder / "ray-operator"  # which replaces the module in go.mod
        link.unlink(missing_ok=True)
        link.symlink_to(given_sources())
    return folder


def _operator(version: str) -> Path:
    """Return the calls of the operator's checks: of this version, or of the last that changed."""
    upto = versions()[: versions().index(version) + 1]
    found = (HERE / "program" / each / "operator.go" for each in reversed(upto))
    return next(each for each in found if each.exists())


def _copy(source: Path, target: Path) -> None:
    """Copy what has changed, so that Go builds nothing twice."""
    if not target.exists() or target.read_bytes() != source.read_bytes():
        target.write_bytes(source.read_bytes())
