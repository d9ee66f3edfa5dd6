"""KubeRay's own unit tests of its checks: functions called, arguments and results.

The tests run unchanged, in a copy of the module of a version. A recorder replaces each `Validate`
function there, calls the real one, and records arguments and results.
"""

import json
import re
import shutil
from typing import Any

from msgspec import Struct, field
from msgspec import json as msgjson

from tests.e2e import go
from tests.lab.parity.build import CACHE, folder_of, module_of

PACKAGE = "controllers/ray/utils"
_TEST = ("test", "-trimpath", "-vet=off", "-count=1", "-run=^TestValidate")
"""`go vet` would look at every package that they use, which takes minutes."""
_CHECK = re.compile(r"^func (?P<name>Validate\w+)\((?P<parameters>[^)]*)\) error \{$", re.MULTILINE)
_PARAMETER = re.compile(r"(?P<name>\w+) (?P<type>[^,]+)")
RECORDER = """// Writes the calls of this package's checks; tests/lab/parity/cases.py puts it here.
package utils

import (
	"encoding/json"
	"os"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	gates "k8s.io/apiserver/pkg/util/feature"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
)

var _ = v1.ObjectMeta{}
var _ = rayv1.RayCluster{}
var within = 0

type recorded struct {
	Test      string          `json:"test"`
	Check     string          `json:"check"`
	Arguments []any           `json:"arguments"`
	Error     string          `json:"error"`
	Gates     map[string]bool `json:"gates"`
}

func record(check string, call func() error, arguments ...any) error {
	within++
	defer func() { within-- }()
	if within > 1 {
		return call()
	}
	said := recorded{Test: caller(), Check: check, Arguments: arguments, Gates: map[string]bool{}}
	for gate := range gates.DefaultMutableFeatureGate.GetAll() {
		said.Gates[string(gate)] = gates.DefaultMutableFeatureGate.Enabled(gate)
	}
	raw, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	found := call()
	if err := json.Unmarshal(raw, &said); err != nil {
		panic(err)
	}
	if found != nil {
		said.Error = found.Error()
	}
	raw, err = json.Marshal(said)
	if err != nil {
		panic(err)
	}
	file, err := os.OpenFile(os.Getenv("PARITY_CASES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.Write(append(raw, '\\n')); err != nil {
		panic(err)
	}
	return found
}

func caller() string {
	for depth := 3; depth < 12; depth++ {
		counter, _, _, _ := runtime.Caller(depth)
		name := runtime.FuncForPC(counter).Name()
		if at := strings.Index(name, ".Test"); at >= 0 {
			test, _, _ := strings.Cut(name[at+1:], ".")
			return test
		}
	}
	return ""
}
"""


class Case(Struct):
    """One call of a check by a unit test, and what the check said."""

    test: str
    check: str
    arguments: list[Any]
    error: str = ""
    gates: dict[str, bool] = field(default_factory=dict)


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
