"""The table of the fields of KubeRay's CustomResourceDefinitions, in
webhook/validation/crd_table.json. Equal parts of the schemas, of which there are many, are stored
once.
"""

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from tests import ROOT

Json = dict[str, Any]

TABLE = ROOT / "webhook" / "validation" / "crd_table.json"
PLAIN = {
    ("string", None): "string", ("string", "byte"): "string", ("string", "date-time"): "date-time",
    ("boolean", None): "boolean", ("integer", None): "int64", ("integer", "int32"): "int32",
    ("integer", "int64"): "int64", ("number", None): "number", (None, None): "any",
}  # fmt: skip
LIMITS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "pattern")
ANY = {"x-kubernetes-preserve-unknown-fields": True}
STRING = {"type": "string"}
STRINGS = {"type": "object", "additionalProperties": STRING}
# https://github.com/kubernetes/apimachinery/blob/master/pkg/apis/meta/v1/types.go (`ObjectMeta`)
METADATA = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "generateName", "namespace"), STRING),
        **dict.fromkeys(("labels", "annotations"), STRINGS),
        "finalizers": {"type": "array", "items": STRING},
        **dict.fromkeys(("ownerReferences", "uid", "resourceVersion", "generation"), ANY),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp", "managedFields"), ANY),
        **dict.fromkeys(("deletionGracePeriodSeconds", "selfLink"), ANY),
    },
}
"""The schema of `metadata`, which CustomResourceDefinitions leave out."""
_ONE_OF = re.compile(r"self in \[(?P<values>[^]]*)\]")


class Table:
    """The parts of all schemas, each once, in the order in which they are needed."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.parts: list[Any] = []

    def add(self, schema: Json) -> str | int:
        part = self._part(schema)
        return part if isinstance(part, str) else self._number(part)

    def copy(self, parts: list[Json], number: str | int) -> str | int:
        """Return the number of a part of another table, which is added with those that it needs."""
        if isinstance(number, str):
            return number
        part = dict(parts[number])
        for name in ("list", "map"):
            if name in part:
                part[name] = self.copy(parts, part[name])
        if "fields" in part:
            part["fields"] = {key: self.copy(parts, held) for key, held in part["fields"].items()}
        return self._number(part)

    def _number(self, part: Json) -> int:
        text = json.dumps(part, sort_keys=True)
        if text not in self._numbers:
            self._numbers[text] = len(self.parts)
            self.parts.append(part)
        return self._numbers[text]

    def _part(self, schema: Json) -> str | Json:
        limits = {name: schema[name] for name in LIMITS if name in schema}
        if schema.get("x-kubernetes-int-or-string"):
            return "quantity" if limits.pop("pattern", None) else "int-or-string"
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return "any"
        held = self._held(schema)
        if values := schema.get("enum") or _one_of(schema):
            held["enum"] = values
        if "type" in held and not limits and "enum" not in held:
            return str(held["type"])
        return {**held, **limits}

    def _held(self, schema: Json) -> Json:
        if schema.get("type") == "array":
            part: Json = {"list": self.add(schema["items"])}
            if keys := schema.get("x-kubernetes-list-map-keys"):
                part["keys"] = keys
            if schema.get("x-kubernetes-list-type") == "set":
                part["set"] = True
            return part
        if isinstance(schema.get("additionalProperties"), dict):
            return {"map": self.add(schema["additionalProperties"])}
        if schema.get("type") == "object":
            return self._object(schema)
        return {"type": PLAIN[schema.get("type"), schema.get("format")]}

    def _object(self, schema: Json) -> Json:
        fields = schema.get("properties", {})
        part: Json = {"fields": {name: self.add(each) for name, each in sorted(fields.items())}}
        filled = sorted(name for name, each in fields.items() if "default" in each)
        if schema.get("required"):
            part["required"] = sorted(schema["required"])
        if filled:
            part["defaulted"] = filled
        return part


def _one_of(schema: Json) -> list[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        if match := _ONE_OF.fullmatch(rule["rule"]):
            return [value.strip(" '") for value in match["values"].split(",")]
    return []


def added(text: str, version: str, folder: Path) -> str:
    """Return the text of the file with one more release, whose definitions are in `folder`, plain
    or with gzip. An earlier patch release of the same minor is replaced.
    """
    before = json.loads(text)
    parts, release = Table(), version.rpartition(".")[0]
    versions = [each for each in before["kuberay"] if each.rpartition(".")[0] != release]
    roots = {
        minor: {kind: parts.copy(before["parts"], number) for kind, number in kinds.items()}
        for minor, kinds in before["roots"].items()
        if minor != release
    }
    roots[release] = _roots(parts, folder)
    return written([*versions, version], roots, parts.parts)


def written(versions: list[str], roots: dict[str, dict[str, str | int]], parts: list[Any]) -> str:
    kinds = ",\n".join(f"{json.dumps(each)}: {json.dumps(roots[each])}" for each in roots)
    lines = ",\n".join(map(json.dumps, parts))
    head = f'"kuberay": {json.dumps(versions)},\n"roots": {{\n{kinds}\n}},\n"parts": [\n{lines}\n]'
    return f"{{{head}}}\n"


def _roots(parts: Table, folder: Path) -> dict[str, str | int]:
    found: dict[str, str | int] = {}
    for file in sorted(folder.glob("*.yaml*")):
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        # A safe loader
        spec = yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["spec"]  # noqa: S506
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            schema["properties"] |= {"metadata": METADATA, "status": ANY}
            found[f"{version['name']}/{spec['names']['kind']}"] = parts.add(schema)
    if not found:
        sys.exit(f"no CustomResourceDefinitions in {folder}")
    return found
