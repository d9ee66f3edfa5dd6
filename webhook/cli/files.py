"""The files that commands read: paths, folders and standard input, opened and handed to the reader
of manifests.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from webhook.manifest.errors import ManifestError
from webhook.manifest.reader import Manifest, read

STDIN: Final = "-"
SUFFIXES: Final = (".yaml", ".yml", ".json")
_NOTHING: Final = "no Ray object or Pod in it (apiVersion ray.io/v1 or v1)"
_ADVICE: Final = "give the path of a YAML or JSON file, or of a folder with such files"


def read_files(paths: Iterable[str | Path]) -> Iterator[Manifest | ManifestError]:
    """Yield the documents of files, of all files below folders, and of standard input for `-`.

    What cannot be read is yielded as an error, and the next file is read. Folders and files below
    a folder whose names begin with a dot are left out.
    """
    for path in paths:
        for file in _files(str(path)):
            try:
                yield from _read(file)
            except ManifestError as problem:
                yield problem


def read_manifests(paths: Iterable[str | Path]) -> list[Manifest]:
    """Return the Ray objects and Pods of files and folders, in order.

    Raises ManifestError for the first that cannot be read, and for a path that has none of them.
    """
    found = []
    for path in paths:
        known = [each for each in _certain(path) if each.kind]
        if not known:
            raise ManifestError(_shown(str(path)), 0, _NOTHING)
        found += known
    return found


def _certain(path: str | Path) -> Iterator[Manifest]:
    for each in read_files([path]):
        if isinstance(each, ManifestError):
            raise each
        yield each


def _read(file: str) -> Iterator[Manifest]:
    if file == STDIN:
        return read(_shown(file), sys.stdin.buffer.read())
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise ManifestError(file, 0, f"{error.strerror or error}: {_ADVICE}") from None
    chart = _chart_of(file)
    if chart is not None and b"{{" in data:
        text = f"a template of Helm: render it first, `helm template {chart} | ray-webhook ... -`"
        raise ManifestError(file, 0, text)
    return read(file, data)


def _chart_of(file: str) -> Path | None:
    """Return the folder of the chart that a file is a template of, or None."""
    above = Path(file).absolute().parents
    for folder in above:
        if folder.name == "templates" and (folder.parent / "Chart.yaml").is_file():
            return Path(os.path.relpath(folder.parent))
    return None


def _shown(path: str) -> str:
    return "<stdin>" if path == STDIN else path


def _files(path: str) -> list[str]:
    folder = Path(path)
    if path == STDIN or not folder.is_dir():
        return [path]
    found = (file for file in folder.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    return sorted(str(file) for file in found if not _hidden(file.relative_to(folder)))


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
