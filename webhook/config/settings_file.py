"""The file of settings: where it is found, and its settings before they are checked."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from webhook.api.failures import InputError
from webhook.manifest.documents import text_of
from webhook.manifest.reader import read_strictly
from webhook.manifest.yaml_values import ManifestError, unknown_tag
from webhook.validation.finding import OFF

API_VERSION: Final = "config.ray-webhook.dev/v1alpha1"
KIND: Final = "Configuration"
"""Kind of the settings file."""

NAME: Final = ".ray-webhook.yaml"
"""The file of a repository, for commands that read files."""

_BEGINNING: Final = f"begin it with the lines `apiVersion: {API_VERSION}` and `kind: {KIND}`"


class RulesOfFile(Struct, forbid_unknown_fields=True):
    """The section `validation` of a file, for commands without the packages of the processes."""

    levels: dict[str, str | bool] = field(default_factory=dict)
    gates: dict[str, bool] = field(default_factory=dict)
    kuberay: str = ""
    operators: list[str] = field(default_factory=list)

    def named_levels(self) -> dict[str, Any]:
        """Return the levels, with `off` where YAML reads it as false."""
        return {name: OFF if level is False else str(level) for name, level in self.levels.items()}


def nearest_settings_file(folder: Path) -> str:
    """Return the path of the file of the repository in a folder or above it, or an empty text."""
    places: Iterable[Path] = (folder, *folder.parents)
    return next((str(place / NAME) for place in places if (place / NAME).is_file()), "")


def read_rules(file: str) -> RulesOfFile:
    """Return the section `validation` of a file. Raises InputError."""
    section = read_settings_file(file).get("validation", {})
    try:
        return msgspec.convert(section, RulesOfFile)
    except msgspec.ValidationError as error:
        raise InputError(f"{file}: validation: {error}") from None


def read_settings_file(file: str) -> dict[str, Any]:
    """Return the settings in a file, without `apiVersion` and `kind`. Raises ManifestError."""
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        text = f"{error.strerror}: give the path of a file with settings"
        raise ManifestError(file, 0, text) from None
    documents = [each.document for each in read_strictly(file, data)]
    if len(documents) != 1:
        text = f"it has {len(documents)} documents, and has to have one: {_BEGINNING}"
        raise ManifestError(file, 0, text)
    if tagged := unknown_tag(text_of(file, data)):
        raise ManifestError(file, tagged[0], f"the tag {tagged[1]} is unknown: remove it")
    found = documents[0]
    if not isinstance(found, dict):
        raise ManifestError(file, 0, f"it is not a map: {_BEGINNING}")
    version, kind = found.pop("apiVersion", None), found.pop("kind", None)
    if (version, kind) != (API_VERSION, KIND):
        text = f"it has apiVersion {version or '(none)'} and kind {kind or '(none)'}; {_BEGINNING}"
        raise ManifestError(file, 0, text)
    return found
