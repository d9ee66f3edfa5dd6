"""Build the programs that answer with KubeRay's and Kubernetes' own code, and find the CRDs and
samples of KubeRay's module.
"""

import gzip
import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import yaml

from tests import go
from tests.e2e.versions import PINS
from webhook.kubeclient.kuberay_release import release_in
from webhook.validation.finding import KubeRay

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "parity"
MODULE = "github.com/ray-project/kuberay/ray-operator"
CRDS_VARIABLE = "PARITY_CRDS"
"""The folder with the CRDs of `UNPUBLISHED`, as they are or with gzip; no one serves its module."""
UNPUBLISHED = "1.7.0"
KUBERNETES = ("1.34.4", "1.37.0")
"""The versions that judge pods: the oldest and the newest of the pairs that the stories run on."""


class Built(NamedTuple):
    """A program with the CRDs that it goes by, and the folder with KubeRay's samples."""

    program: Path
    crds: Path
    samples: Path

    @property
    def release(self) -> KubeRay | None:
        """The release that `serve` takes KubeRay for where these CRDs are stored."""
        definition = yaml.safe_load((self.crds / "ray.io_rayclusters.yaml").read_bytes())
        return release_in(json.dumps(definition).encode())


def versions() -> list[str]:
    """Return the versions of KubeRay that can be built, the oldest first."""
    found = [path.parent.name for path in (HERE / "program").glob("*/go.mod")]
    return sorted(found, key=lambda version: [int(number) for number in version.split(".")])


def build(version: str) -> Built:
    """Return the program for a version. Raises CannotBuildError."""
    folder = folder_of(version)
    config = module_of(folder) / "config"
    # Without paths, it shares Go's cache with what `tests.e2e.build` builds of the same modules
    go.run(folder, "build", "-trimpath", "-buildvcs=false", "-o", "parity", ".")
    return Built(folder / "parity", config / "crd" / "bases", config / "samples")


def build_judge(version: str) -> Path:
    """Return the program of a version of Kubernetes. Raises CannotBuildError."""
    folder = CACHE / f"kubernetes-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    for source in (HERE / "judge" / "main.go", *(PINS / "kubernetes" / version).glob("go.*")):
        _copy(source, folder / source.name)
    go.run(folder, "build", "-trimpath", "-buildvcs=false", "-o", "judge", ".")
    return folder / "judge"


def folder_of(version: str) -> Path:
    folder = CACHE / version
    folder.mkdir(parents=True, exist_ok=True)
    programs = HERE / "program"
    for source in (programs / "main.go", _operator(version), *(programs / version).iterdir()):
        _copy(source, folder / source.name)
    return folder


def _operator(version: str) -> Path:
    """Return the calls of the operator's checks: of this version, or of the last that changed."""
    upto = versions()[: versions().index(version) + 1]
    found = (HERE / "program" / each / "operator.go" for each in reversed(upto))
    return next(each for each in found if each.exists())


def module_of(folder: Path) -> Path:
    """Return where KubeRay's module is that a folder's program is built with."""
    go.download(folder, MODULE)
    return Path(go.run(folder, "list", "-m", "-f", "{{.Dir}}", MODULE).strip())


def unpublished() -> Built:
    """Return a program that goes by the CRDs of `UNPUBLISHED`. Raises CannotBuildError, also where
    they are not given.
    """
    given = os.environ.get(CRDS_VARIABLE, "")
    files = sorted(Path(given).glob("*.yaml*")) if given else []
    if not files:
        raise go.CannotBuildError(
            f"the module of KubeRay {UNPUBLISHED} is not published, and {CRDS_VARIABLE} names no "
            "folder with its CustomResourceDefinitions"
        )
    folder = CACHE / UNPUBLISHED
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in files:
        data = file.read_bytes()
        plain = gzip.decompress(data) if file.suffix == ".gz" else data
        (folder / file.name.removesuffix(".gz")).write_bytes(plain)
    return build(versions()[-1])._replace(crds=folder)


def _copy(source: Path, target: Path) -> None:
    """Copy what has changed, so that Go builds nothing twice."""
    if not target.exists() or target.read_bytes() != source.read_bytes():
        target.write_bytes(source.read_bytes())
