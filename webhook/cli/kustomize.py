"""Patches of Kustomize: files that are no objects, but parts that change those of other files."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from webhook.manifest.reader import read
from webhook.manifest.yaml_values import ManifestError

_NAMES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_FIELDS: Final = ("patches", "patchesStrategicMerge", "patchesJson6902")
"""https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/patches/"""


class PatchError(ManifestError):
    """A patch, which is not checked alone."""

    @classmethod
    def named_in(cls, file: str, kustomization: str) -> "PatchError":
        """Return the notice of a file that a kustomization names as a patch."""
        return cls(file, 0, f"a patch of {kustomization}, skipped: {_advice(kustomization)}")

    @classmethod
    def of_object(cls, file: str, line: int, name: str, other: str) -> "PatchError":
        """Return the notice of a part of an object that another file has."""
        message = f"a patch of {name} in {other}, skipped: it has no headGroupSpec"
        return cls(file, line, message)


def _advice(kustomization: str) -> str:
    folder = os.path.dirname(kustomization) or "."  # noqa: PTH120 - a path as it was given
    return f"check `kubectl kustomize {folder} | ray-webhook validate -`"


def without_patches(files: Iterable[str]) -> Iterator[str | PatchError]:
    """Yield files, with a notice in place of those that a kustomization in the folder of one of
    them names as a patch.
    """
    listed = [*files]
    patches: dict[str, str] = {}
    for folder in dict.fromkeys(Path(file).parent for file in listed):
        for name in _NAMES:
            kustomization = folder / name
            if os.path.isfile(kustomization):  # noqa: PTH113 - of pathlib it raises
                for patch in _patches(kustomization):
                    patches.setdefault(os.path.abspath(folder / patch), str(kustomization))  # noqa: PTH100 - pathlib keeps ".."
    for file in listed:
        kustomization_of = patches.get(os.path.abspath(file)) if patches else None  # noqa: PTH100
        yield file if kustomization_of is None else PatchError.named_in(file, kustomization_of)


def _patches(kustomization: Path) -> Iterator[str]:
    """Yield the paths of the patches in a kustomization; none if it cannot be read."""
    try:
        documents = [*read(str(kustomization), kustomization.read_bytes())]
    except OSError:
        return
    for item in documents:
        document = None if isinstance(item, ManifestError) else item.document
        for field in _FIELDS:
            entries = document.get(field) if isinstance(document, dict) else None
            for entry in entries if isinstance(entries, list) else ():
                yield from _paths(entry)


def _paths(entry: Any) -> Iterator[str]:  # noqa: ANN401 - whatever a file holds
    path = entry.get("path") if isinstance(entry, dict) else entry
    if isinstance(path, str) and "\n" not in path:
        yield path
