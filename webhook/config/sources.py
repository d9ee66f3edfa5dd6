"""Sources of settings: flags, then environment variables, then a file, then the defaults.

Each process has flags for the settings that it reads. Environment variables and the file are shared
by all processes, and may contain the settings of each.
"""

import argparse
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from webhook.api.failures import InputError
from webhook.api.formats import nearest
from webhook.config.configuration import Settings, known, schema
from webhook.config.settings_file import SECTIONS, read_settings_file

PREFIX: Final = "RAY_WEBHOOK_"
"""Prefix of all environment variables."""

CONFIG: Final = f"{PREFIX}CONFIG"
"""The variable with the path of the file, in place of the flag `--config`."""

_OF_ALL: Final = (
    "listen",
    "log.format",
    "ignore",
    "devices",
    "profiles",
    "kubeconfig",
    "namespaces",
)
PROCESSES: Final[Mapping[str, tuple[str, ...]]] = {
    "serve": SECTIONS,
    "controller": (
        "installation.name",
        "installation.namespace",
        "installation.components",
        *_OF_ALL,
    ),
}
"""Sections and settings by the process that reads them."""

_SHORT: Final[Mapping[str, Mapping[str, str]]] = {
    "serve": {"listen.host": "host", "listen.adminPort": "admin-port", "serving.port": "port"},
    "controller": {"listen.host": "host", "listen.adminPort": "port"},
}
_PLACEHOLDERS: Final = {
    "string": "TEXT",
    "integer": "NUMBER",
    "number": "SECONDS",
    "boolean": "BOOL",
    "array": "A,B",
    "object": "NAME=VALUE,...",
}
_CAPITAL: Final = re.compile("[A-Z]")


def settings_of(process: str) -> list[str]:
    """Return the names of the settings that a process reads, in order."""
    return [
        name
        for name in known()
        if any(f"{name}.".startswith(f"{section}.") for section in PROCESSES[process])
    ]


def flag(name: str) -> str:
    """Return the flag of a setting."""
    return f"--{_CAPITAL.sub(lambda found: f'-{found[0].lower()}', name)}"


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + _CAPITAL.sub(r"_\g<0>", name).upper().replace(".", "__")


def add_flags(process: str, parser: argparse.ArgumentParser) -> None:
    """Add the flags of a process to a parser."""
    described, sections = known(), schema()["properties"]
    parser.add_argument(
        "--config", metavar="PATH", help=f"file with settings; {CONFIG} names it otherwise"
    )
    groups = {"": parser.add_argument_group("other settings")}
    for name in settings_of(process):
        node, section = described[name], name.rpartition(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(section, sections[section]["description"])
        short = _SHORT[process].get(name)
        kind = str(_plain(node).get("type", "string"))
        options: dict[str, Any] = {"nargs": "?", "const": "true"} if kind == "boolean" else {}
        groups[section].add_argument(
            *([f"--{short}"] if short else []),
            flag(name),
            dest=name,
            action="append" if kind == "array" else "store",
            metavar="|".join(_choices(node)) or _PLACEHOLDERS[kind],
            help=_help(node).replace("%", "%%"),
            **options,
        )


def read_settings(
    arguments: Sequence[str], process: str = "serve", parser: argparse.ArgumentParser | None = None
) -> Settings:
    """Return the settings of `serve` or `controller`. `parser` has its flags.

    Raises InputError with a line for each invalid setting: name, value and allowed values; prints
    usage and exits for a wrong flag.
    """
    # A misspelt variable would leave the default in force without a word.
    _refuse_unknown(os.environ)
    if parser is None:
        parser = argparse.ArgumentParser(f"ray-webhook {process}")
        add_flags(process, parser)
    flag_values = vars(parser.parse_args(list(arguments)))
    file = flag_values.pop("config") or os.environ.get(CONFIG)
    document = read_settings_file(file) if file else {}
    named = {name: os.environ.get(variable(name)) for name in known()}
    for values in (named, flag_values):
        for name, value in values.items():
            if value is not None:
                _put(document, name, value)
    try:
        settings = Settings.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        lines = [_explain(item) for item in error.errors(include_url=False)]
        raise InputError("\n".join(lines)) from None
    if problem := _conflict(process, settings):
        raise InputError(problem)
    return settings


def _conflict(process: str, settings: Settings) -> str:
    """Return why a process cannot start with valid settings, empty if it can."""
    port = settings.serving.port
    if process == "serve" and port == settings.listen.admin_port != 0:
        return f"settings serving.port and listen.adminPort are both {port}: set different ports"
    if process == "serve" and settings.state and not settings.standalone:
        return (
            "setting state needs standalone: with a live cluster, pods and RayClusters are watched"
        )
    if process == "controller" and not settings.installation.components:
        return (
            "setting installation.components is empty, so there is nothing to write: name one, for "
            "`ray-webhook serve` too, or do not run this process"
        )
    return ""


def describe_allowed_values(node: Mapping[str, Any]) -> str:
    """Return the allowed values of a schema, in words."""
    node, choices = _plain(node), _choices(node)
    if choices:
        return f"one of {', '.join(choices)}"
    kind = node.get("type")
    if kind == "array":
        return "a list: [a, b], or a,b by a flag"
    if kind == "object":
        return "a map: {name: value}, or name=value by a flag"
    word = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}
    least, most = node.get("minimum"), node.get("maximum")
    bounds = f" from {least} to {most}" if most is not None else ""
    if "examples" in node:
        return f'text such as "{node["examples"][0]}", in quotes'
    return word.get(str(kind), "text") + bounds


def _plain(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of an optional value."""
    plain_node: Mapping[str, Any] = node["anyOf"][0] if "anyOf" in node else node
    return plain_node


def _choices(node: Mapping[str, Any]) -> list[str]:
    return [choice for choice in node.get("enum", ()) if isinstance(choice, str)]


def _help(node: Mapping[str, Any]) -> str:
    default = node.get("default")
    if default in (None, "", [], {}):
        return str(node["description"])
    if isinstance(default, list):
        default = ",".join(default)
    default_text = str(default).lower() if isinstance(default, bool) else default
    return f"{node['description']} (default: {default_text})"


def _put(document: dict[str, Any], name: str, value: str | list[str]) -> None:
    """Set a setting in a document, from the text of a flag or a variable."""
    section, _, last = name.rpartition(".")
    node = document.setdefault(section, {}) if section else document
    if not isinstance(node, dict):  # the file is invalid; reported by the validation
        return
    value_text = ",".join(value) if isinstance(value, list) else value
    kind = _plain(known()[name]).get("type")
    node[last] = _parse_collection(name, value_text) if kind in {"array", "object"} else value_text


def _parse_collection(name: str, text: str) -> object:
    """Return a list or map from JSON, `a,b` or `key=value,...`. Raises InputError."""
    if text.lstrip()[:1] in {"[", "{"}:
        try:
            return json.loads(text)
        except ValueError as error:
            raise InputError(f"setting {name}: not JSON: {error}") from None
    items = [item.strip() for item in text.split(",") if item.strip()]
    if known()[name]["type"] == "array":
        return items
    pairs = [item.partition("=") for item in items]
    if not all(separator for _, separator, _ in pairs):
        raise InputError(f"setting {name}: a map is written key=value,other=value")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    """Raise InputError for unknown variables with the prefix, such as misspelt ones."""
    variables = {CONFIG, *map(variable, known())}
    wrong = sorted(name for name in environ if name.startswith(PREFIX) and name not in variables)
    if not wrong:
        return
    close = [f"{name}{_neighbour(name, variables, PREFIX)}" for name in wrong]
    message = (
        f"unknown environment variables {', '.join(close)}; known are "
        f"{', '.join(sorted(variables))}"
    )
    # Kubernetes sets such variables for a Service `ray-webhook` in the namespace of the pod.
    # https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    if any(name.endswith(("_SERVICE_HOST", "_TCP", "_PORT")) for name in wrong):
        message += (
            "; variables of Kubernetes Services are switched off by `enableServiceLinks: false`"
        )
    raise InputError(message)


def _explain(item: Mapping[str, Any]) -> str:
    """Return one line about a value that pydantic rejects."""
    place, node = item["loc"], schema()
    name = ".".join(str(key) if key != "" else '""' for key in place)
    if item["type"] == "extra_forbidden":
        if name in known():
            nested = name.replace(".", ": {")
            return f"setting {name} is one key, and has to be in a map: {nested}: ...}}"
        section = name[: name.rfind(".") + 1]
        ends = (setting.removeprefix(section) for setting in known() if setting.startswith(section))
        siblings = list(dict.fromkeys(section + end.partition(".")[0] for end in ends))
        near = _neighbour(name, siblings, section)
        return f"setting {name} does not exist{near}; known are {', '.join(siblings)}"
    if item["type"] == "value_error":
        return f"setting {name}: {item['ctx']['error']}"
    if item["type"] == "missing":
        return f"setting {name} is required"
    for word in place:
        inner = _plain(node)
        other_schemas = (
            *inner.get("patternProperties", {}).values(),
            inner.get("additionalProperties"),
        )
        candidates = inner.get("properties", {}).get(word), *other_schemas, inner.get("items")
        node = next((candidate for candidate in candidates if isinstance(candidate, dict)), {})
    value_text = "empty" if item["input"] is None else repr(item["input"])
    return f"setting {name} is {value_text}, and has to be {describe_allowed_values(node)}"


def _neighbour(name: str, others: Iterable[str], prefix: str) -> str:
    """Return a suggestion if a name is similar after the prefix of all; empty otherwise."""
    ends = sorted(other_name.removeprefix(prefix) for other_name in others)
    close = nearest(name.removeprefix(prefix), ends, 0.75)
    return f" (did you mean {prefix}{close}?)" if close else ""
