"""The file of settings: where it is found, and its settings before they are checked."""

import os
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from webhook.accelerators.devices import add_devices
from webhook.accelerators.profiles import add_profiles
from webhook.api.failures import InputError
from webhook.config.time_zones import TIME_ZONES
from webhook.manifest.documents import text_of
from webhook.manifest.reader import read_strictly
from webhook.manifest.yaml_values import ManifestError, unknown_tag
from webhook.validation.finding import OFF
from webhook.validation.rule_settings import RuleSettings, parse_kuberay
from webhook.validation.ruleset import unknown_names

API_VERSION: Final = "config.ray-webhook.dev/v1alpha1"
KIND: Final = "Configuration"
"""Kind of the settings file."""

NAME: Final = ".ray-webhook.yaml"
"""The file of a repository, for commands that read files."""

SECTIONS: Final = (
    "installation",
    "listen",
    "serving",
    "tls",
    "log",
    "validation",
    "affinity",
    "startup",
    "termination",
    "disruption",
    "topology",
    "ignore",
    "devices",
    "profiles",
    "standalone",
    "state",
    "kubeconfig",
    "namespaces",
)
"""The settings of the first level; those of `webhook.config.configuration.Settings`."""

_BEGINNING: Final = f"begin it with the lines `apiVersion: {API_VERSION}` and `kind: {KIND}`"


class RulesOfFile(Struct, forbid_unknown_fields=True):
    """The section `validation` of a file, for commands without the packages of the processes.
    `quotas` and `operators` matter only to `serve`.
    """

    levels: dict[str, str | bool] = field(default_factory=dict)
    gates: dict[str, bool] = field(default_factory=dict)
    kuberay: str = ""
    quotas: bool = True
    operators: list[str] = field(default_factory=list)


def on_or_off(value: object) -> object:
    """Return the word that YAML reads as a boolean without quotes."""
    return (OFF, "on")[value] if isinstance(value, bool) else value


def nearest_settings_file() -> str:
    """Return the path of the file of the repository in the working folder or above it, or an empty
    text, also if the working folder is deleted.
    """
    try:
        folder = Path.cwd()
    except OSError:
        return ""
    paths = (str(place / NAME) for place in (folder, *folder.parents))
    # Unlike Path.is_file, this is false for a folder that may not be searched
    return next(filter(os.path.isfile, paths), "")


class SectionsOfFile(Struct):
    """The sections of a file that commands without the packages of the processes read."""

    validation: RulesOfFile = field(default_factory=RulesOfFile)
    devices: dict[str, list[str]] = field(default_factory=dict)
    profiles: dict[str, dict[str, str]] = field(default_factory=dict)


def read_rules(file: str) -> RuleSettings:
    """Return the settings of the rules in a file, with its devices and profiles; the defaults
    without a file. Raises InputError.
    """
    if not file:
        return RuleSettings(time_zones=TIME_ZONES)
    sections = read_settings_file(file)
    if other := next((name for name in sections if name not in SECTIONS), ""):
        raise InputError(f"{file}: there is no section {other!r}; known are {', '.join(SECTIONS)}")
    try:
        converted = msgspec.convert(sections, SectionsOfFile)
        devices, profiles = add_devices(converted.devices), add_profiles(converted.profiles)
    except ValueError as error:
        advice = f"`ray-webhook settings check {file}` says what to write"
        raise InputError(f"{file}: {error}; {advice}") from None
    rules = converted.validation
    try:
        kuberay = parse_kuberay(rules.kuberay)
    except ValueError:
        problem = f"validation.kuberay is {rules.kuberay!r}: write a release such as 1.6"
        raise InputError(f"{file}: {problem}") from None
    levels: dict[str, Any] = {name: on_or_off(level) for name, level in rules.levels.items()}
    settings = RuleSettings(
        levels, rules.gates, TIME_ZONES, kuberay=kuberay, devices=devices, profiles=profiles
    )
    if problems := unknown_names(settings):
        raise InputError(f"{file}: validation: {'; '.join(problems)}")
    return settings


def read_settings_file(file: str) -> dict[str, Any]:
    """Return the settings in a file, without `apiVersion` and `kind`. Raises ManifestError."""
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        message = f"{error.strerror}: give the path of a file with settings"
        raise ManifestError(file, 0, message) from None
    documents = [manifest.document for manifest in read_strictly(file, data)]
    if len(documents) != 1:
        message = f"it has {len(documents)} documents, and has to have one: {_BEGINNING}"
        raise ManifestError(file, 0, message)
    if tagged := unknown_tag(text_of(file, data)):
        raise ManifestError(file, tagged[0], f"the tag {tagged[1]} is unknown: remove it")
    settings = documents[0]
    if not isinstance(settings, dict):
        raise ManifestError(file, 0, f"it is not a map: {_BEGINNING}")
    version, kind = settings.pop("apiVersion", None), settings.pop("kind", None)
    if (version, kind) != (API_VERSION, KIND):
        message = (
            f"it has apiVersion {version or '(none)'} and kind {kind or '(none)'}; {_BEGINNING}"
        )
        raise ManifestError(file, 0, message)
    return settings
