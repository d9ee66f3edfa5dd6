"""The schema of the chart's `config`, from the settings."""

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

import yaml

from tests import ROOT
from webhook.config.configuration import schema

FILE: Final = ROOT / "manifests" / "chart" / "values.schema.json"

ELSEWHERE: Final = (
    "apiVersion", "kind", "installation", "listen", "serving.port", "tls.source", "tls.certDir",
    "topology.nodeLabels", "validation.quotas", "standalone", "state", "kubeconfig",
)  # fmt: skip
"""Settings that other values set, or the chart itself."""


def config() -> dict[str, Any]:
    """Return the schema of `config`: that of a settings file, without what is set elsewhere."""
    found = {key: value for key, value in deepcopy(schema()).items() if key != "required"}
    for name in ELSEWHERE:
        *sections, last = name.split(".")
        node = found
        for section in sections:
            node = node["properties"][section]
        del node["properties"][last]
    plain: dict[str, Any] = _plain(found)
    return plain


def _plain(node: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a schema without titles and defaults, but with a setting of that name."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if key not in {"title", "default", "format"}}
    return {
        key: {name: _plain(each) for name, each in value.items()}
        if key == "properties"
        else _plain(value)
        for key, value in kept.items()
    }


def text() -> str:
    values = json.loads(FILE.read_text())
    values["properties"]["config"] = config()
    _require(values, yaml.safe_load(FILE.with_name("values.yaml").read_text()))
    return json.dumps(values, indent=2) + "\n"


def _require(node: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    """Require the values that templates read without a default of their own: a null removes one."""
    required = []
    for name, default in defaults.items():
        item = node["properties"][name]
        if isinstance(default, dict):
            if item.get("additionalProperties") is False:
                required.append(name)
                if name != "config":
                    _require(item, default)
        elif default not in ("", []):
            required.append(name)
    if required:
        node["required"] = required
