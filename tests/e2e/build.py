"""Build the programs of a control plane from Go modules into the cache directory.

`python -m tests.e2e.build` builds missing and outdated programs; exit code 2: this machine lacks Go
or the network; 1: a program does not compile. `versions.chosen()` returns the versions: those of
the newest pair are in `bin/`, others in separate directories.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT
from tests.e2e import go
from tests.e2e.go import CANNOT_BUILD, CannotBuildError
from tests.e2e.versions import (
    NEWEST,
    PINS,
    PREVIOUS_KUBERNETES,
    SOURCE_VARIABLE,
    UNPUBLISHED,
    chosen,
    source_folder,
)

CACHE_VARIABLE = "E2E_CACHE"
KUBERAY_MODULE = "github.com/ray-project/kuberay/ray-operator"
PREVIOUS_KUBECTL = "kubectl-two-minors-back"
HELM, HELM_4 = "helm", "helm-4"
CRDS = "crds"


@dataclass(frozen=True)
class Tool:
    """A program and the Go package it is built from.

    `module` is the folder under tools/ whose go.mod pins it; those of KubeRay and Kubernetes hold a
    folder for each version.
    """

    name: str
    module: str
    package: str
    manifests: str = ""
    """The folder of its Go module that kubectl renders into what installs it."""
    definitions: str = ""
    """The folder of its Go module whose files are its CustomResourceDefinitions."""
    ours: bool = False
    """Whether it is built from a main package beside go.mod, as its own is in no module that Go's
    proxies serve. Then `package` names the module that it is made of.
    """

    @property
    def pins(self) -> Path:
        """The folder of the go.mod that pins it, for the chosen pair, or of its given sources."""
        if self.is_unpublished:
            return given_sources()
        folder = PINS / self.module / chosen().of(self.module)
        if not folder.is_dir():
            raise CannotBuildError(
                f"{self.name}: {folder} is not there; `python -m tests.e2e.pin` makes it"
            )
        return folder

    @property
    def is_unpublished(self) -> bool:
        """Whether it is built from given sources, as its module is not published."""
        return self.module == "kuberay" and chosen().kuberay == UNPUBLISHED.kuberay

    @property
    def cache(self) -> Path:
        """The folder of what is built of its module: the shared one for the newest pair."""
        version = chosen().of(self.module)
        if version == NEWEST.of(self.module):
            return cache_directory()
        return cache_directory() / f"{self.module}-{version}"


TOOLS = (
    Tool("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    Tool("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Tool("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    Tool("kuberay-operator", "kuberay", KUBERAY_MODULE),
    Tool("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Tool("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Tool("kueue", "kueue", "sigs.k8s.io/kueue/cmd/kueue", manifests="config/default"),
    Tool(
        "cert-manager", "cert-manager", "github.com/cert-manager/cert-manager",
        definitions="deploy/crds", ours=True,
    ),
    Tool(PREVIOUS_KUBECTL, f"kubernetes/{PREVIOUS_KUBERNETES}", "k8s.io/kubernetes/cmd/kubectl"),
    Tool("actionlint", "actionlint", "github.com/rhysd/actionlint/cmd/actionlint"),
    Tool(HELM, "helm", "helm.sh/helm/v3/cmd/helm"),
    Tool(HELM_4, "helm-4", "helm.sh/helm/v4/cmd/helm"),
    Tool("kustomize", "kustomize", "sigs.k8s.io/kustomize/kustomize/v5"),
    Tool("prometheus", "prometheus", "github.com/prometheus/prometheus/cmd/prometheus"),
    Tool("promtool", "prometheus", "github.com/prometheus/prometheus/cmd/promtool"),
)  # fmt: skip
BY_NAME = {tool.name: tool for tool in TOOLS}
SERVING = ("etcd", "kube-apiserver", "kubectl")
OPERATOR = "kuberay-operator"
SCHEDULING = ("kube-controller-manager", "kube-scheduler")
"""What only the stories of PodGroups and of Kueue start."""
KUEUE = "kueue"
CERT_MANAGER = "cert-manager"


def required() -> tuple[str, ...]:
    pair = chosen()
    return (
        *SERVING,
        OPERATOR,
        *(SCHEDULING if pair.pod_groups else ()),
        *((KUEUE, CERT_MANAGER, PREVIOUS_KUBECTL, HELM_4) if pair == NEWEST else ()),
    )


def cache_directory() -> Path:
    """Where programs and CRDs are kept: `.cache/e2e` unless the environment says otherwise."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given).resolve() if given else ROOT / ".cache" / "e2e"


def binary(name: str) -> Path:
    return BY_NAME[name].cache / "bin" / name


def manifests(name: str) -> Path:
    return binary(name).with_suffix(".yaml")


def crd_directory() -> Path:
    return BY_NAME[OPERATOR].cache / CRDS


def definitions() -> list[bytes]:
    paths = sorted(crd_directory().glob("*.yaml"))
    if not paths:
        raise CannotBuildError(
            f"{crd_directory()} has no CustomResourceDefinitions; run `python -m tests.e2e.build`"
        )
    return [path.read_bytes() for path in paths]


def missing(names: tuple[str, ...] | None = None) -> list[str]:
    """The named programs (else those of the pair) and the CRDs that a build would have to make."""
    absent = [name for name in names or required() if not _is_current(BY_NAME[name])]
    return absent if _crds_are_current() else [*absent, CRDS]


def build(names: tuple[str, ...] | None = None) -> None:
    names = names or required()
    if not missing(names):
        return
    with _locked():
        if not _crds_are_current():
            _copy_crds()
            print(f"{CRDS}: copied from KubeRay {chosen().kuberay}", flush=True)
        for name in (name for name in missing(names) if name != CRDS):
            started = time.monotonic()
            version = _required(BY_NAME[name])[1]
            print(
                f"{name}: building {version} (minutes when the Go build cache is cold)", flush=True
            )
            _compile(BY_NAME[name])
            size = binary(name).stat().st_size / 1e6
            print(f"{name}: built in {time.monotonic() - started:.0f} s, {size:.0f} MB", flush=True)


def _fingerprint(tool: Tool) -> str:
    """Changes when the pinned modules or the way of building do."""
    files = ("go.mod", "go.sum", *(("main.go",) if tool.ours else ()))
    pins = b"".join((tool.pins / name).read_bytes() for name in files)
    return hashlib.sha256(pins + "\0".join(_arguments(tool)).encode()).hexdigest()


def _is_current(tool: Tool) -> bool:
    path = binary(tool.name)
    return path.exists() and _stamp(path) == _fingerprint(tool)


def _crds_are_current() -> bool:
    copied, operator = crd_directory(), BY_NAME[OPERATOR]
    return any(copied.glob("*.yaml")) and _stamp(copied) == _fingerprint(operator)


def _stamp(path: Path) -> str:
    stamp = path.with_name(path.name + ".stamp")
    return stamp.read_text() if stamp.exists() else ""


def _write_stamp(path: Path, text: str) -> None:
    path.with_name(path.name + ".stamp").write_text(text)


def _required(tool: Tool) -> tuple[str, str]:
    """The module that `tool.package` belongs to, and the version that go.mod requires of it."""
    if tool.is_unpublished:
        return tool.package, UNPUBLISHED.kuberay
    for line in (tool.pins / "go.mod").read_text().splitlines():
        words = line.removeprefix("require ").split()
        if (
            len(words) > 1
            and words[1].startswith("v")
            and f"{tool.package}/".startswith(f"{words[0]}/")
        ):
            return words[0], words[1]
    raise ValueError(f"{tool.pins}/go.mod requires no version of {tool.package}")


def _arguments(tool: Tool) -> list[str]:
    """What `go build` is given. Programs of Kubernetes get their version from the linker."""
    flags = ["-s", "-w"]
    if tool.module.startswith("kubernetes"):
        version = _required(tool)[1]
        major, minor, _ = version.removeprefix("v").split(".", 2)
        values = {
            "gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean",
        }  # fmt: skip
        flags += [
            f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items()
        ]
    source = "." if tool.ours or tool.is_unpublished else tool.package
    return ["-trimpath", "-buildvcs=false", f"-ldflags={' '.join(flags)}", source]


def _compile(tool: Tool) -> None:
    target = binary(tool.name)
    if not tool.is_unpublished:
        go.download(tool.pins, _required(tool)[0])
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".new")
    go.run(tool.pins, "build", "-p=2", "-o", str(unfinished), *_arguments(tool))
    unfinished.rename(target)
    if tool.manifests:
        _render(tool)
    if tool.definitions:
        folder = go.module_folder(tool.pins, tool.package)
        found = sorted((folder / tool.definitions).glob("*.yaml"))
        manifests(tool.name).write_text("\n---\n".join(each.read_text() for each in found))
    _write_stamp(target, _fingerprint(tool))


def _render(tool: Tool) -> None:
    kubectl = binary("kubectl")
    if not kubectl.exists():
        raise CannotBuildError(f"{tool.name}: kubectl renders its manifests: build that first")
    folder = Path(go.run(tool.pins, "list", "-f", "{{.Module.Dir}}", tool.package).strip())
    command = [str(kubectl), "kustomize", str(folder / tool.manifests)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{tool.name}: kubectl says {done.stderr.decode(errors='replace')}")
    manifests(tool.name).write_bytes(done.stdout)


def _copy_crds() -> None:
    sources = crd_sources()
    shutil.rmtree(crd_directory(), ignore_errors=True)
    crd_directory().mkdir(parents=True)
    for source in sources:  # not copied with its mode: the module cache is read-only
        (crd_directory() / source.name).write_bytes(source.read_bytes())
    _write_stamp(crd_directory(), _fingerprint(BY_NAME[OPERATOR]))


def crd_sources() -> list[Path]:
    folder = module_folder() / "config" / "crd" / "bases"
    found = sorted(folder.glob("*.yaml"))
    if not found:
        raise CannotBuildError(f"{folder} has no CustomResourceDefinitions")
    return found


def given_sources() -> Path:
    folder = source_folder()
    if folder is None or not (folder / "go.mod").is_file():
        raise CannotBuildError(
            f"the module of KubeRay {UNPUBLISHED.kuberay} is not published, and {SOURCE_VARIABLE} "
            "names no folder with the sources of ray-operator"
        )
    return folder


def module_folder() -> Path:
    tool = BY_NAME[OPERATOR]
    if tool.is_unpublished:
        return given_sources()
    return go.module_folder(tool.pins, KUBERAY_MODULE)


@contextmanager
def _locked() -> Iterator[None]:
    """Keeps a second build of the same cache waiting until the first is done."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="PROGRAM",
        help=f"of {', '.join(BY_NAME)}; default: what the pair needs",
    )
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in BY_NAME]:
        parser.error(f"no such program: {', '.join(unknown)}")
    started = time.monotonic()
    try:
        build(tuple(options.names))
    except CannotBuildError as error:
        print(f"cannot build here: {error}", file=sys.stderr)
        return CANNOT_BUILD
    print(f"{chosen()}: ready in {time.monotonic() - started:.1f} s in {cache_directory()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
