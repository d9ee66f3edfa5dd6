"""KubeRay's own unit tests of its checks: functions called, and arguments.

The tests run unchanged, in a copy of the module of a version. A recorder replaces each `Validate`
function there, records its arguments, and calls the real one.
"""

import json
import re
import shutil
from typing import Any

from msgspec import Struct
from msgspec import json as msgjson

from tests.e2e import go
from tests.lab.parity.build import CACHE, HERE, folder_of, module_of

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
    shutil.copytree(module_of(folder_of(version)), module, copy_function=shutil.copyfile)
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
