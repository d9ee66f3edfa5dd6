"""Add a release of KubeRay to the tables: `python -m tests.schema.release 1.8.0 [FOLDER]`.

`FOLDER` is `ray-operator` of its sources; without one, the Go module is downloaded. Writes the
schemas and the feature gates, and prints what differs from the release before.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests import ROOT
from tests.e2e import go
from tests.lab.facts import kuberay
from tests.lab.parity.build import MODULE
from tests.schema.generate import TABLE, added
from webhook.validation import crd, rules
from webhook.validation.rule_settings import DEFAULT_GATES, GATES, parse_kuberay

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
    module = go.run(ROOT, "mod", "download", "-json", f"{MODULE}@v{version}")
    return Path(json.loads(module)["Dir"])


if __name__ == "__main__":
    sys.exit(main())
