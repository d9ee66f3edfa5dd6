"""Add a release of KubeRay to the tables: `python -m tests.schema.release 1.8.0 [FOLDER]`.

`FOLDER` is `ray-operator` of its sources; without one, the Go module is downloaded. Writes the
schemas, of which equal parts are stored once, and the feature gates, and prints what differs from
the release before.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests import ROOT
from tests.e2e import go
from tests.e2e.build import KUBERAY_MODULE
from tests.lab.facts import kuberay
from tests.lab.program import Json
from webhook.validation import crd, rules
from webhook.validation.rule_settings import DEFAULT_GATES, GATES, parse_kuberay

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
GATE_TABLE: Final = TABLE.with_name("feature_gates.json")
ELSEWHERE: Final = {
    "metadata", "template", "submitterPodTemplate", "rayClusterSpec", "rayClusterConfig",
    "jobTemplate",
}  # fmt: skip
"""Fields with the schema of another kind."""
_CHECK: Final = re.compile(r"^func (Validate\w+)\(", re.MULTILINE)
NEXT: Final = """
To do by hand:
- tests/lab/parity/program/{version}: go.mod, go.sum, and operator.go if checks were renamed
- python -m tests.e2e.pin kuberay {version}; tests/e2e/versions.py and .ci/run: the new pair
- rules for checks that differ, with `since={release}`: `make parity KUBERAY={version}` names them
- make generate, and make test"""


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
    """Return the text of the file with one more release, whose definitions are in `folder`. An
    earlier patch release of the same minor is replaced.
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
    for file in sorted(folder.glob("*.yaml")):
        spec = yaml.load(file.read_bytes(), yaml.CSafeLoader)["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            schema["properties"] |= {"metadata": METADATA, "status": ANY}
            found[f"{version['name']}/{spec['names']['kind']}"] = parts.add(schema)
    if not found:
        sys.exit(f"no CustomResourceDefinitions in {folder}")
    return found


def with_gates(text: str, version: str, gates: dict[str, bool]) -> str:
    rows = {**json.loads(text), version.rpartition(".")[0]: gates}
    lines = ",\n".join(f"{json.dumps(each)}: {json.dumps(rows[each])}" for each in rows)
    return f"{{\n{lines}\n}}\n"


def paths(schema: crd.Schema) -> set[str]:
    """Return the fields of a release, without those of pods and of the RayCluster elsewhere."""

    def below(name: str | int, path: str) -> Iterator[str]:
        yield path
        part = schema.part(name)
        for key, held in (part.fields or {}).items():
            if key not in ELSEWHERE:
                yield from below(held, f"{path}.{key}")
        if part.entries is not None:
            yield from below(part.entries, f"{path}[]")

    kinds = (kind for kind in schema.roots if kind.startswith("v1/"))
    return {path for kind in kinds for path in below(schema.roots[kind], kind.removeprefix("v1/"))}


def tops(fields: set[str]) -> list[str]:
    parents = {field: re.sub(r"\[\]$|\.[^.]+$", "", field) for field in fields}
    return sorted(field for field, parent in parents.items() if parent not in fields)


def differences(version: str, source: Path) -> Iterator[str]:
    release = parse_kuberay(version)
    assert release is not None
    before = max((each for each in crd.releases() if each < release), default=release)
    fields, earlier = (paths(crd.schema_of(each)) for each in (release, before))
    yield from (f"new field: {each}" for each in tops(fields - earlier))
    yield from (f"field is gone: {each}" for each in tops(earlier - fields))
    gates, previous = kuberay.gates(source), DEFAULT_GATES.get(before, {})
    for name in sorted({*gates, *previous}):
        if gates.get(name) != previous.get(name):
            mark = ", which rules depend on" if name in GATES else ""
            states = f"{previous.get(name, 'none')} before, {gates.get(name, 'none')}"
            yield f"gate {name}{mark}: {states}"
    text = (source / "controllers" / "ray" / "utils" / "validation.go").read_text()
    functions = {name for rule in rules.RULES for name in rule.functions}
    yield from (
        f"check without a rule: {each}" for each in sorted({*_CHECK.findall(text)} - functions)
    )
    for fact in kuberay.facts(source):
        if fact.differs:
            yield f"fact: {fact}"


def main() -> int:
    if not 2 <= len(sys.argv) <= 3 or sys.argv[1].count(".") != 2:
        sys.exit("usage: make kuberay RELEASE=1.8.0 [SOURCE=FOLDER, ray-operator of its sources]")
    version, *given = sys.argv[1:]
    source = Path(given[0]) if given else _downloaded(version)
    TABLE.write_text(added(TABLE.read_text(), version, source / "config" / "crd" / "bases"))
    GATE_TABLE.write_text(with_gates(GATE_TABLE.read_text(), version, kuberay.gates(source)))
    print(f"KubeRay {version}: {TABLE.relative_to(ROOT)} and {GATE_TABLE.name} are written")
    for line in differences(version, source):
        print(f"- {line}")
    print(NEXT.format(version=version, release=parse_kuberay(version)))
    return 0


def _downloaded(version: str) -> Path:
    module = go.run(ROOT, "mod", "download", "-json", f"{KUBERAY_MODULE}@v{version}")
    return Path(json.loads(module)["Dir"])


if __name__ == "__main__":
    sys.exit(main())
