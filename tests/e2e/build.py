"""Builds the programs of a control plane from Go modules into the cache directory, and says where they are.

`python tests/e2e/build.py` builds what is missing or out of date; exit code 2 means that it cannot be built here.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE_VARIABLE = "E2E_CACHE"
ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
KUBERAY_MODULE = "github.com/ray-project/kuberay/ray-operator"
CRDS = "crds"
CANNOT_BUILD = 2

Say = Callable[[str], None]


class CannotBuildError(Exception):
    """A program cannot be built on this machine; the message says why."""


@dataclass(frozen=True)
class Tool:
    """A program and the Go package it is built from; `module` is the folder under tools/ whose go.mod pins it."""

    name: str
    module: str
    package: str
    asset: bool = False
    """Whether KUBEBUILDER_ASSETS, where it is set, holds this program."""


TOOLS = (
    Tool("etcd", "etcd", "go.etcd.io/etcd/server/v3", asset=True),
    Tool("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", asset=True),
    Tool("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", asset=True),
    Tool("kuberay-operator", "kuberay", KUBERAY_MODULE),
    Tool("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Tool("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Tool("helm", "helm", "helm.sh/helm/v3/cmd/helm"),
    Tool("kustomize", "kustomize", "sigs.k8s.io/kustomize/kustomize/v5"),
)
REQUIRED = ("etcd", "kube-apiserver", "kubectl", "kuberay-operator", "kube-controller-manager", "kube-scheduler")
BY_NAME = {tool.name: tool for tool in TOOLS}


def cache_directory() -> Path:
    """Where programs and CRDs are kept: `.cache/e2e` at the repository root unless the environment says otherwise."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen).resolve() if chosen else HERE.parents[1] / ".cache" / "e2e"


def binary(name: str) -> Path:
    """The path of a program, built or not."""
    assets = os.environ.get(ASSETS_VARIABLE)
    if assets and BY_NAME[name].asset:
        return Path(assets).resolve() / name
    return cache_directory() / "bin" / name


def crd_directory() -> Path:
    """The folder with KubeRay's CustomResourceDefinitions, as its module ships them."""
    return cache_directory() / CRDS


def missing(names: tuple[str, ...] = REQUIRED) -> list[str]:
    """The named programs (and the CRDs) that a build would still have to make."""
    absent = [name for name in names if not _is_current(BY_NAME[name])]
    return absent if _crds_are_current() else [*absent, CRDS]


def build(names: tuple[str, ...] = REQUIRED, say: Say = print, parallel: int = 2) -> None:
    """Makes the named programs and the CRDs exist. Raises CannotBuildError with the reason when it cannot."""
    for name in names:
        path = binary(name)
        if _is_asset(BY_NAME[name]) and not path.exists():
            raise CannotBuildError(f"{ASSETS_VARIABLE} is set, and {path} does not exist")
    if not missing(names):
        return
    with _locked():
        if not _crds_are_current():
            _copy_crds()
            say(f"{CRDS}: copied from KubeRay {_version(BY_NAME['kuberay-operator'])}")
        for name in (name for name in missing(names) if name != CRDS):
            started = time.monotonic()
            say(f"{name}: building {_version(BY_NAME[name])} (minutes when the Go build cache is cold)")
            _compile(BY_NAME[name], parallel)
            size = binary(name).stat().st_size / 1e6
            say(f"{name}: built in {time.monotonic() - started:.0f} s, {size:.0f} MB")


def _is_asset(tool: Tool) -> bool:
    return tool.asset and bool(os.environ.get(ASSETS_VARIABLE))


def _fingerprint(tool: Tool) -> str:
    """Changes when the pinned modules or the way of building do."""
    folder = HERE / "tools" / tool.module
    pins = (folder / "go.mod").read_bytes() + (folder / "go.sum").read_bytes()
    return hashlib.sha256(pins + "\0".join(_arguments(tool)).encode()).hexdigest()


def _is_current(tool: Tool) -> bool:
    path = binary(tool.name)
    if _is_asset(tool):
        return path.exists()
    return path.exists() and _stamp(path) == _fingerprint(tool)


def _crds_are_current() -> bool:
    return _stamp(crd_directory()) == _fingerprint(BY_NAME["kuberay-operator"])


def _stamp(path: Path) -> str:
    stamp = path.with_name(path.name + ".stamp")
    return stamp.read_text() if stamp.exists() else ""


def _write_stamp(path: Path, text: str) -> None:
    path.with_name(path.name + ".stamp").write_text(text)


def _version(tool: Tool) -> str:
    """The version that go.mod requires of the module that `tool.package` belongs to."""
    for line in (HERE / "tools" / tool.module / "go.mod").read_text().splitlines():
        words = line.removeprefix("require ").split()
        if len(words) > 1 and words[1].startswith("v") and f"{tool.package}/".startswith(f"{words[0]}/"):
            return words[1]
    raise CannotBuildError(f"tests/e2e/tools/{tool.module}/go.mod requires no version of {tool.package}")


def _arguments(tool: Tool) -> list[str]:
    """What `go build` is given. Kubernetes programs learn their version from the linker, not from their module."""
    flags = ["-s", "-w"]
    if tool.module == "kubernetes":
        version = _version(tool)
        major, minor, _ = version.removeprefix("v").split(".", 2)
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        flags += [f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items()]
    return ["-trimpath", "-buildvcs=false", f"-ldflags={' '.join(flags)}", tool.package]


def _compile(tool: Tool, parallel: int) -> None:
    target = binary(tool.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".new")
    _go(tool, "build", f"-p={parallel}", "-o", str(unfinished), *_arguments(tool))
    unfinished.rename(target)
    _write_stamp(target, _fingerprint(tool))


def _copy_crds() -> None:
    tool = BY_NAME["kuberay-operator"]
    _go(tool, "mod", "download", KUBERAY_MODULE)  # `go list` gives no folder for a module that is not downloaded yet
    module = _go(tool, "list", "-m", "-f", "{{.Dir}}", KUBERAY_MODULE).strip()
    sources = sorted((Path(module) / "config" / "crd" / "bases").glob("*.yaml")) if module else []
    if not sources:
        raise CannotBuildError(f"{CRDS}: the module {KUBERAY_MODULE} has no CustomResourceDefinitions in config/crd/bases")
    shutil.rmtree(crd_directory(), ignore_errors=True)
    crd_directory().mkdir(parents=True)
    for source in sources:
        shutil.copyfile(source, crd_directory() / source.name)  # not copy: the module cache is read-only
    _write_stamp(crd_directory(), _fingerprint(tool))


def _go(tool: Tool, *arguments: str) -> str:
    """Runs the go command in the tool's module and gives its standard output."""
    go = shutil.which("go")
    if go is None:
        raise CannotBuildError(f"{tool.name}: there is no `go` on the PATH; install Go 1.26 or newer")
    environment = {"GOTOOLCHAIN": "auto", **os.environ, "CGO_ENABLED": "0"}
    command = [*(["nice", "-n", "10"] if shutil.which("nice") else []), go, *arguments]
    folder = HERE / "tools" / tool.module
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-20:])
        raise CannotBuildError(f"{tool.name}: `go {arguments[0]}` failed with code {done.returncode}:\n{tail}")
    return done.stdout


@contextmanager
def _locked() -> Iterator[None]:
    """Keeps a second build of the same cache waiting until the first is done."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with (cache_directory() / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Builds what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help=f"of {', '.join(BY_NAME)}; default: {REQUIRED}")
    parser.add_argument("--all", action="store_true", help="all programs")
    parser.add_argument("-p", "--parallel", type=int, default=2, help="packages compiled at once (default 2)")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in BY_NAME]:
        parser.error(f"no such program: {', '.join(unknown)}")
    names = tuple(BY_NAME) if options.all else tuple(options.names) or REQUIRED
    started = time.monotonic()
    try:
        build(names, lambda line: print(f"[{time.monotonic() - started:5.0f} s] {line}", flush=True), options.parallel)
    except CannotBuildError as error:
        print(f"cannot build here: {error}", file=sys.stderr)
        return CANNOT_BUILD
    print(f"ready in {time.monotonic() - started:.1f} s: {cache_directory()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
