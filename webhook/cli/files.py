"""The input of commands: files, folders and standard input, as manifests."""

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

from webhook.api import names
from webhook.api.formats import nearest, shorten
from webhook.cli.kustomize import PatchError, without_patches
from webhook.cli.parsing import bug
from webhook.manifest.reader import Manifest, read
from webhook.manifest.yaml_values import ManifestError

STDIN: Final = "-"
SUFFIXES: Final = (".yaml", ".yml", ".json")
_NOTHING: Final = "no Ray object or Pod in it (apiVersion ray.io/v1 or v1)"
_READABLE: Final = "make it readable for you, or give paths without it"
_ADVICE: Final = "give the path of a YAML or JSON file, or of a folder with such files"


def read_files(paths: Iterable[str | Path]) -> Iterator[Manifest | ManifestError]:
    """Yield the documents of files, of all files below folders, and of standard input for `-`.

    A file or folder that cannot be read is yielded as an error, and the next file is read. Files
    and folders below a folder whose names begin with a dot are skipped.
    """
    return read_listed(list_files(paths))


def list_files(paths: Iterable[str | Path]) -> Iterator[str | ManifestError]:
    """Return the files of paths, with an error for each folder that cannot be read, and a notice
    for each patch of Kustomize.
    """
    files = [*chain.from_iterable(_files(str(path)) for path in paths)]
    checked = without_patches(file for file in files if isinstance(file, str) and file != STDIN)
    return (
        item if isinstance(item, ManifestError) or item == STDIN else next(checked)
        for item in files
    )


def read_listed(files: Iterable[str | ManifestError]) -> Iterator[Manifest | ManifestError]:
    """Yield the documents of files, and the errors among them."""
    for file in files:
        if isinstance(file, ManifestError):
            yield file
            continue
        try:
            yield from _read(file)
        except ManifestError as problem:
            yield problem
        except Exception as error:  # noqa: BLE001 - no file keeps another from being read
            yield ManifestError(file, 0, f"the file cannot be read: {bug(error)}")


def read_manifests(paths: Iterable[str | Path]) -> list[Manifest]:
    """Return the Ray objects and Pods of files and folders, in order.

    Raises ManifestError for the first that cannot be read, and for a path without any of them.
    """
    manifests = []
    for path in paths:
        path_manifests = [manifest for manifest in certain(path) if manifest.kind]
        if not path_manifests:
            raise ManifestError(_format_path(str(path)), 0, _NOTHING)
        manifests += path_manifests
    return manifests


def certain(path: str | Path) -> Iterator[Manifest]:
    """Yield the documents of a path. Raises ManifestError for the first that cannot be read, and
    for an object that is of Ray only by its kind or only by its group.
    """
    for item in read_files([path]):
        if isinstance(item, PatchError):
            continue
        if isinstance(item, ManifestError):
            raise item
        if not item.kind and (problem := check_type_meta(item)):
            raise problem
        yield item


def check_type_meta(item: Manifest) -> ManifestError | None:
    """Return the error of an object that is of Ray only by its kind or only by its group."""
    document = item.document if isinstance(item.document, dict) else {}
    version, kind = text_in(document, "apiVersion"), text_in(document, "kind")
    alike = next(
        (ray_kind for ray_kind in names.RAY_KINDS if ray_kind.lower() == kind.strip().lower()), ""
    )
    if not alike and version.partition("/")[0] != names.RAY_GROUP:
        return None
    values = [kind, *(text_in(document, key) for key in document)]  # also for misspelt keys
    near = next(
        filter(None, (nearest(value, names.RAY_KINDS) for value in values)), names.RAYCLUSTER_KIND
    )
    missing = next((key for key in ("apiVersion", "kind") if not text_in(document, key)), "")
    problem = (
        f"it has no {missing}" if missing else f"there is no {shorten(kind)} in {shorten(version)}"
    )
    message = f"{problem}: write apiVersion ray.io/v1 and kind {alike or near}"
    return ManifestError(item.file, item.line(["kind"]), message)


def text_in(document: dict[str, Any], key: str) -> str:
    """Return the value of a key, empty if it is not a string."""
    value = document.get(key)
    return value if isinstance(value, str) else ""


def _read(file: str) -> Iterator[Manifest | ManifestError]:
    if file == STDIN:
        return read(_format_path(file), sys.stdin.buffer.read())
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        advice = _READABLE if isinstance(error, PermissionError) else _ADVICE
        raise ManifestError(file, 0, f"{error.strerror or error}: {advice}") from None
    chart = _chart_of(file)
    if chart is not None and b"{{" in data:
        message = (
            f"a template of Helm: render it first, `helm template {chart} | ray-webhook ... -`"
        )
        raise ManifestError(file, 0, message)
    return read(file, data)


def _chart_of(file: str) -> Path | None:
    """Return the folder of the chart that has a file as a template, or None."""
    above = Path(file).absolute().parents
    for folder in above:
        if folder.name == "templates" and (folder.parent / "Chart.yaml").is_file():
            return Path(os.path.relpath(folder.parent))
    return None


def _format_path(path: str) -> str:
    return "<stdin>" if path == STDIN else path


def _files(path: str) -> list[str | ManifestError]:
    """Return a file, or the files below a folder in order, with the folders that cannot be read."""
    if path == STDIN or not os.path.isdir(path):  # noqa: PTH112 - of pathlib it raises
        return [path]
    paths: list[str | ManifestError] = []

    def unreadable(error: OSError) -> None:
        message = f"the folder cannot be read: {error.strerror or error}"
        paths.append(ManifestError(str(error.filename), 0, f"{message}: {_READABLE}"))

    for folder, below, files in os.walk(path, onerror=unreadable):
        # Such as `.git` and `.github`, whose YAML is not for Kubernetes.
        below[:] = [name for name in below if not name.startswith(".")]
        named = (Path(folder, name) for name in files if not name.startswith("."))
        candidates = (str(file) for file in named if file.suffix in SUFFIXES)
        paths += (candidate for candidate in candidates if os.path.isfile(candidate))  # noqa: PTH113 - of pathlib it raises
    return sorted(paths, key=lambda each: each.file if isinstance(each, ManifestError) else each)
