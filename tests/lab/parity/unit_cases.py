"""Compare the rules with KubeRay on the objects of its unit tests: `python -m
tests.lab.parity.unit_cases [VERSION]`.

The tests run unchanged, in a copy of the module of a version. A recorder replaces each `Validate`
function there, records its arguments, and calls the real one. A unit test checks a part of an
object. The rest is taken from a valid object. Exit code 1: differences found.
"""

import json
import re
import shutil
import sys
from typing import Any

from msgspec import Struct
from msgspec import json as msgjson

from tests.e2e import go
from tests.e2e.build import KUBERAY_MODULE
from tests.e2e.go import CANNOT_BUILD, CannotBuildError
from tests.lab.parity.build import CACHE, HERE, available, build, folder_of, versions
from tests.lab.parity.compare import compare
from tests.lab.parity.programs import Oracle
from tests.lab.program import Json
from tests.webhook.validation.samples import base
from webhook.validation.change import INCREMENTAL
from webhook.validation.rule_settings import GATES, RuleSettings, parse_kuberay

OPTIONS = "ValidateClusterUpgradeOptions"
"""Is only called for this type of upgrade, with this gate on; its cases leave both out."""
GATE = "RayServiceIncrementalUpgrade"
_KINDS = ("RayCluster", "RayJob", "RayService", "RayCronJob")
PACKAGE = "controllers/ray/utils"
_TEST = ("test", "-trimpath", "-vet=off", "-count=1", "-run=^TestValidate")
"""`go vet` would look at every package that they use, which takes minutes."""
_CHECK = re.compile(r"^func (?P<name>Validate\w+)\((?P<parameters>[^)]*)\) error \{$", re.MULTILINE)
_PARAMETER = re.compile(r"(?P<name>\w+) (?P<type>[^,]+)")
RECORDER = (HERE / "recorder" / "recorder.go").read_text()


class Case(Struct):
    """One call of a check by a unit test, with the gates of that moment."""

    test: str
    check: str
    arguments: list[Any]
    gates: dict[str, bool]


def cases(version: str) -> list[Case]:
    """Run the unit tests of a version, and return their calls. Raises CannotBuildError."""
    module = CACHE / f"cases-{version}"
    shutil.rmtree(module, ignore_errors=True)
    shutil.copytree(
        go.module_folder(folder_of(version), KUBERAY_MODULE), module, copy_function=shutil.copyfile
    )
    checks = module / PACKAGE / "validation.go"
    original = checks.read_text()
    checks.write_text(_renamed(original))
    checks.with_name("recorder.go").write_text(_recorders(original))
    calls = module / "calls.jsonl"
    go.run(module, *_TEST, f"./{PACKAGE}", PARITY_CASES=str(calls))
    return [msgjson.decode(line, type=Case) for line in calls.read_bytes().splitlines()]


def _renamed(source: str) -> str:
    return _CHECK.sub(r"func recorded\g<name>(\g<parameters>) error {", source)


def _recorders(source: str) -> str:
    found = [RECORDER]
    for match in _CHECK.finditer(source):
        name, parameters = match["name"], match["parameters"].replace("metav1.", "v1.")
        given = ", ".join(each["name"] for each in _PARAMETER.finditer(parameters))
        found.append(
            f"func {name}({parameters}) error {{\n\treturn record({json.dumps(name)}, "
            f"func() error {{ return recorded{name}({given}) }}, {given})\n}}\n"
        )
    return "\n".join(found)


def whole(case: Case) -> Json:
    """Return the object that a case stands for."""
    kind = next(each for each in (*_KINDS, "") if case.check.startswith(f"Validate{each}"))
    valid, given = base(kind or "RayService"), _clean(case.arguments[0])
    if case.check.endswith("Metadata"):
        return valid | {"metadata": given}
    if case.check == "ValidateRayClusterSpec" and "spec" not in given:
        valid["metadata"]["annotations"] = _clean(case.arguments[1]) or {}
        return valid | {"spec": given}
    if case.check.endswith("UpgradeOptions"):
        valid = _over(valid, given)
        if case.check == OPTIONS:
            valid = _over(valid, {"spec": {"upgradeStrategy": {"type": INCREMENTAL}}})
            valid["spec"]["rayClusterConfig"]["enableInTreeAutoscaling"] = (
                given["spec"].get("rayClusterConfig", {}).get("enableInTreeAutoscaling", False)
            )
        return valid
    metadata = valid["metadata"] | given.get("metadata", {})
    return valid | {"spec": given.get("spec", {}), "metadata": metadata}


def agrees(version: str) -> bool:
    """Print how the rules differ from a version of KubeRay, and return whether they do not."""
    found = [case for case in cases(version) if not case.check.endswith("Status")]
    differing = 0
    with Oracle(build(version)) as oracle:
        for case in found:
            gates = {name: on for name, on in case.gates.items() if name in GATES}
            gates |= {GATE: True} if case.check == OPTIONS else {}
            value = whole(case)
            settings = RuleSettings(kuberay=parse_kuberay(version), gates=gates)
            odd = compare(value, oracle.ask(value, gates=gates), settings)
            differing += bool(odd)
            for each in odd:
                print(f"  {case.test}, {case.check}: {each.rule or 'KubeRay alone'}: {each.said}")
    print(f"KubeRay {version}: {len(found)} unit cases, of which {differing} differ")
    return bool(found) and not differing


def main(arguments: list[str]) -> int:
    chosen = arguments or available()
    if not {*chosen} <= {*versions()}:
        print(f"{' or '.join(chosen)}: the module with its unit cases is not published")
        return CANNOT_BUILD
    try:
        return int(not all(agrees(version) for version in chosen))
    except CannotBuildError as error:
        print(f"cannot build here: {error}", file=sys.stderr)
        return CANNOT_BUILD


def _clean(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return JSON of Go without its nulls."""
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items() if item is not None}
    return [_clean(item) for item in value] if isinstance(value, list) else value


def _over(under: Json, over: Json) -> Json:
    merged = dict(under)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(under.get(key), dict):
            merged[key] = _over(under[key], value)
        elif value not in ({}, [], ""):
            merged[key] = value
    return merged


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
