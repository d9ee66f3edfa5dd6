"""`ray-webhook validate`: output, line numbers and exit codes."""

import argparse
import io
import json
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.alone import alone
from tests.diagnostics.scenes import Scene
from tests.diagnostics.served import serving
from tests.validation.builders import a_cluster
from webhook.cli import file_checks
from webhook.cli.file_checks import check_files
from webhook.cli.files import listed
from webhook.cli.main import main
from webhook.cli.validate import add_arguments, collect, run
from webhook.validation.finding import Finding
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.rules import RULES
from webhook.validation.ruleset import check_file

BROKEN = """\
# A cluster that cannot work.
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: demo
spec:
  headGroupSpec:
    template:
      spec:
        containers: [{name: ray, image: "ray:1"}]
  workerGroupSpecs:
  - groupName: workers
    numOfHosts: 0
    replicas: 99
    maxReplicas: 10
    template:
      spec:
        containers: [{name: ray, image: "ray:1"}]
"""
WARNED = BROKEN.replace("numOfHosts: 0", "numOfHosts: 1")
CLEAN = WARNED.replace("replicas: 99", "replicas: 9")

ROOT = Path(__file__).parents[2]
GROUP = "spec.workerGroupSpecs[0]"

Validate = Callable[..., tuple[int, str, str]]


@pytest.fixture
def validate(capsys: pytest.CaptureFixture[str]) -> Validate:
    """Run the command with arguments; return its exit status, standard output
    and standard error.
    """

    def call(*arguments: object) -> tuple[int, str, str]:
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        status = run(parser.parse_args([str(argument) for argument in arguments]))
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str, name: str = "cluster.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


Write = Callable[..., Path]


def test_findings_are_printed_with_their_line_and_fail_the_command(
    validate: Validate, file: Write
) -> None:
    path = file(BROKEN)
    status, out, err = validate("-f", path)
    assert status == 1
    assert out.splitlines() == [
        (
            f"{path}:13: deny num-of-hosts-invalid {GROUP}.numOfHosts: "
            'worker group "workers": numOfHosts is 0: write 1 to 4096'
        ),
        (
            f"{path}:14: warn replicas-out-of-bounds {GROUP}.replicas: "
            'worker group "workers": replicas is 99, so KubeRay takes 10: write 0 to 10, '
            "or change the bounds"
        ),
    ]
    assert err == "1 Ray object: 1 denied, 1 warning\n"


def test_the_only_allowed_number_of_replicas_is_no_range(validate: Validate, file: Write) -> None:
    fixed = CLEAN.replace("maxReplicas: 10", "minReplicas: 2\n    maxReplicas: 2")
    out = validate(file(fixed))[1]
    assert "replicas is 9, so KubeRay takes 2: write 2, or change the bounds" in out


@pytest.mark.parametrize(("text", "strict", "status"), [
    (CLEAN, False, 0), (CLEAN, True, 0), (WARNED, False, 0), (WARNED, True, 1), (BROKEN, False, 1),
])  # fmt: skip
def test_the_exit_status_tells_denials_and_if_strict_warnings(
    validate: Validate, file: Write, text: str, *, strict: bool, status: int
) -> None:
    assert validate(file(text), *["--strict"] * strict)[0] == status


def test_other_kinds_are_skipped_and_counted(validate: Validate, file: Write) -> None:
    path = file(f"apiVersion: v1\nkind: Pod\n---\n# nothing\n---\njust: values\n---\n{CLEAN}")
    assert validate(path) == (
        0,
        "",
        "1 Ray object: 0 denied, 0 warnings; 2 other objects skipped\n",
    )


def test_lines_count_through_all_documents(validate: Validate, file: Write) -> None:
    out = validate(file(f"kind: Other\n---\n{BROKEN}---\n{BROKEN}"))[1]
    assert [line.split(":")[1] for line in out.splitlines()] == ["15", "16", "34", "35"]


def test_directories_are_searched_for_yaml_and_json(
    validate: Validate, file: Write, tmp_path: Path
) -> None:
    file(BROKEN, "b.yml")
    file(json.dumps(yaml.safe_load(BROKEN)), "sub/a.json")
    file(BROKEN, "notes.txt")
    file(BROKEN, ".hidden/c.yaml")
    status, out, _ = validate(tmp_path)
    assert status == 1
    assert {line.split(":")[0] for line in out.splitlines()} == {
        str(tmp_path / "b.yml"),
        str(tmp_path / "sub/a.json"),
    }


def test_standard_input_is_read_for_a_dash(
    validate: Validate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BROKEN.encode())))
    status, out, _ = validate("-")
    assert status == 1
    assert out.startswith("<stdin>:13: deny")


@pytest.mark.parametrize("kind", ["List", "RayClusterList"])
def test_the_items_of_a_list_are_checked_where_they_stand(
    validate: Validate, file: Write, kind: str
) -> None:
    lines = "".join(f"  {line}\n" for line in BROKEN.splitlines()[1:])
    path = file(f"apiVersion: v1\nkind: {kind}\nitems:\n- {lines[2:]}- {lines[2:]}")
    out = validate(path)[1]
    assert [line.split(":")[1] for line in out.splitlines()] == ["15", "16", "32", "33"]


def test_json_has_lines_too_and_may_have_tabs_and_surrogates(
    validate: Validate, file: Write
) -> None:
    value = yaml.safe_load(BROKEN)
    value["metadata"]["annotations"] = {"smile": "\U0001f600", "path": "a\\b/c"}
    path = file(json.dumps(value, indent="\t"), "cluster.json")
    line = next(
        number
        for number, text in enumerate(path.read_text().splitlines(), 1)
        if "numOfHosts" in text
    )
    assert validate(path)[1].startswith(f"{path}:{line}: deny num-of-hosts-invalid")


def test_a_field_that_is_missing_is_reported_at_what_should_have_it(
    validate: Validate, file: Write
) -> None:
    path = file(CLEAN.replace("spec:\n  head", "spec:\n  enableInTreeAutoscaling: yes\n  head"))
    lines = path.read_text().splitlines()
    out = validate(path)[1].splitlines()
    assert [line.split(" ")[2] for line in out] == ["cpu-unknown", "cpu-unknown"]
    for line in out:
        assert "containers" in lines[int(line.split(":")[1]) - 1]


def test_a_field_behind_an_alias_or_a_merge_is_reported_where_it_is_written(
    validate: Validate, file: Write
) -> None:
    path = file("""\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: demo}
spec:
  headGroupSpec: &group
    rayStartParams:
      num_cpus: "0"
    template: &template
      spec:
        containers: [{name: ray, image: "ray:1"}]
  workerGroupSpecs:
  - <<: *group
    groupName: merged
  - groupName: aliased
    numOfHosts: 0
    template: *template
    <<: {rayStartParams: {oops: "1"}, numOfHosts: 7}
""")
    assert [
        line.split(" ")[0].split(":")[1] + " " + line.split(" ")[3]
        for line in validate(path)[1].splitlines()
    ] == [
        "7 spec.headGroupSpec.rayStartParams[num_cpus]:",
        "7 spec.workerGroupSpecs[0].rayStartParams[num_cpus]:",
        "15 spec.workerGroupSpecs[1].numOfHosts:",
        "17 spec.workerGroupSpecs[1].rayStartParams[oops]:",
    ]


@pytest.mark.parametrize(("text", "line"), [
    ("a: [1\nb: 2\n", 2),
    ("a: 1\na: 2\n", 2),
    ("kind: x\nspec:\n  a: *nowhere\n", 3),
    ("kind: &a\n  b: *a\n", 1),
    ("a:\n- b\n c: d\n", 3),
    ("? [a]\n: b\n", 1),
    ("a: 1\n<<: 2\n", 2),
    ("{{ template }}: x\n", 1),
    ("a: 1\n\tb: 2\n", 2),
])  # fmt: skip
def test_what_cannot_be_read_is_a_message_with_its_line(
    validate: Validate, file: Write, text: str, line: int
) -> None:
    path = file(text)
    status, out, err = validate(path, file(BROKEN, "other.yaml"))
    assert status == 2
    assert err.startswith(f"{path}:{line}: "), err
    assert "Traceback" not in err
    assert "other.yaml:13" in out, "the other file is checked all the same"


def test_a_file_that_is_missing_or_not_text_is_a_message(
    validate: Validate, tmp_path: Path
) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"a: 1\nb: \xff\xfe\n")
    (tmp_path / "control.yaml").write_bytes(b"a: \x00\n")
    status, _, err = validate(
        tmp_path / "none.yaml", tmp_path / "binary.yaml", tmp_path / "control.yaml"
    )
    assert status == 2
    assert [line.split(": ")[0].rpartition("/")[2] for line in err.splitlines()[:3]] == [
        "none.yaml",
        "binary.yaml:2",
        "control.yaml:1",
    ]


def test_nesting_and_aliases_that_explode_do_no_harm(validate: Validate, file: Write) -> None:
    assert validate(file("[" * 100_000))[0] == 2
    bomb = "a0: &a0 [x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 40)
    )
    assert validate(file(bomb))[0] == 2


def test_no_path_and_unknown_rules_and_gates_are_errors(validate: Validate, file: Write) -> None:
    assert validate()[0] == 2
    status, _, err = validate(
        file(CLEAN),
        "--rule",
        "no-such-rule=off",
        "--gate",
        "RayClusterMTLS=perhaps",
        "--gate",
        "NoSuchGate=true",
    )
    assert status == 2
    assert len(err.splitlines()) == 3


def test_rules_and_gates_can_be_set(validate: Validate, file: Write) -> None:
    path = file(BROKEN)
    assert validate(
        path, "--rule", "num-of-hosts-invalid=off", "--rule", "replicas-out-of-bounds=off"
    )[:2] == (0, "")
    gated = file(json.dumps(a_cluster().spec(tlsOptions={"enabled": True}).build()), "gated.json")
    status, out, _ = validate(gated)
    assert (status, "warn feature-gate-off" in out) == (0, True)
    assert validate(gated, "--gate", "RayClusterMTLS=false")[0] == 1
    status, out, _ = validate(gated, "--gate", "RayClusterMTLS=true")
    assert (status, "feature-gate-off" in out) == (0, False)


def test_json_output_has_every_finding(validate: Validate, file: Write) -> None:
    path = file(BROKEN)
    entries = json.loads(validate(path, "-o", "json")[1])
    assert entries[0] == {
        "file": str(path),
        "line": 13,
        "level": "deny",
        "rule": "num-of-hosts-invalid",
        "path": "spec.workerGroupSpecs[0].numOfHosts",
        "message": 'worker group "workers": numOfHosts is 0: write 1 to 4096',
    }
    assert len(entries) == 2
    assert json.loads(validate(file(CLEAN), "-o", "json")[1]) == []


def test_github_output_is_one_workflow_command_a_finding(validate: Validate, file: Write) -> None:
    path = file(BROKEN, "50%,a:b.yaml")
    out = validate(path, "-o", "github")[1].splitlines()
    escaped = str(path).replace("%", "%25").replace(",", "%2C").replace(":", "%3A")
    assert out[0].startswith(
        "::error "
        f"file={escaped},line=13,title=num-of-hosts-invalid::spec.workerGroupSpecs[0].numOfHosts: "
        'worker group "workers": numOfHosts is 0: '
    )
    assert out[1].startswith(f"::warning file={escaped},line=14,title=replicas-out-of-bounds::")


def test_sarif_output_is_what_code_scanning_reads(validate: Validate, file: Write) -> None:
    path = file(BROKEN, "a b.yaml")
    log: Any = json.loads(validate(path, "-o", "sarif")[1])
    assert log["version"] == "2.1.0"
    (run_,) = log["runs"]
    rules = run_["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in RULES]
    assert all(
        rule["shortDescription"]["text"]
        and rule["defaultConfiguration"]["level"] in ("error", "warning")
        for rule in rules
    )
    first = run_["results"][0]
    assert re.fullmatch("[0-9a-f]{64}", first.pop("partialFingerprints")["fileRulePath/v1"])
    assert rules[first["ruleIndex"]]["id"] == first["ruleId"] == "num-of-hosts-invalid"
    assert first == {
        "ruleId": "num-of-hosts-invalid",
        "ruleIndex": first["ruleIndex"],
        "level": "error",
        "message": {
            "text": (
                'spec.workerGroupSpecs[0].numOfHosts: worker group "workers": numOfHosts is 0: '
                "write 1 to 4096"
            )
        },
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": str(path).replace(" ", "%20")},
                    "region": {"startLine": 13},
                },
                "logicalLocations": [{"fullyQualifiedName": "spec.workerGroupSpecs[0].numOfHosts"}],
            }
        ],
    }


SARIF_SCHEMA = json.loads((Path(__file__).parent / "sarif-2.1.0-rtm.5.json").read_text())


def test_sarif_output_is_what_its_schema_says_and_names_files_as_a_repository_does(
    validate: Validate, file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    twice = f"{BROKEN}---\n{BROKEN}"
    status, out, _ = validate(file(twice), file("a: [1\n", "not.yaml"), "-o", "sarif")
    log: Any = json.loads(out)
    jsonschema.Draft4Validator(SARIF_SCHEMA).validate(log)
    assert status == 2
    (run_,) = log["runs"]
    places = [each["locations"][0]["physicalLocation"] for each in run_["results"]]
    assert {each["artifactLocation"]["uri"] for each in places} == {"cluster.yaml"}
    prints = [each["partialFingerprints"]["fileRulePath/v1"] for each in run_["results"]]
    assert len(set(prints)) == len(prints) == 4
    assert any("helpUri" in rule for rule in run_["tool"]["driver"]["rules"])
    (invocation,) = run_["invocations"]
    assert invocation["executionSuccessful"] is False
    error, warning = invocation["toolExecutionNotifications"]
    place = error["locations"][0]["physicalLocation"]
    assert (error["level"], place["artifactLocation"]["uri"]) == ("error", "not.yaml")
    assert warning["level"] == "warning", "two objects of one name"


def test_a_finding_keeps_its_fingerprint_when_lines_move(validate: Validate, file: Write) -> None:
    def prints(text: str) -> list[str]:
        log = json.loads(validate(file(text), "-o", "sarif")[1])
        return [
            each["partialFingerprints"]["fileRulePath/v1"] for each in log["runs"][0]["results"]
        ]

    assert prints(BROKEN) == prints(f"# moved\n\n{BROKEN}")


SERVICE = """\
apiVersion: ray.io/v1
kind: RayService
metadata:
  name: demo
spec:
  rayClusterConfig: {headGroupSpec: {template: {spec: {containers: [{name: ray, image: "ray:1"}]}}}}
  serveConfigV2: @
    applications:
    - name: fruit

      import_path: fruit
"""


@pytest.mark.parametrize(("style", "line"), [("|", 11), ("|-", 11), (">", 7)])
def test_a_finding_within_a_text_has_the_line_in_the_file(
    validate: Validate, file: Write, style: str, line: int
) -> None:
    path = file(SERVICE.replace("@", style))
    status, out, _ = validate(path)
    assert status == 1
    if style == ">":
        assert out.startswith(f"{path}:{line}: deny serve-config-unreadable ")
    else:
        where = "spec.serveConfigV2.applications[0].import_path"
        assert f"{path}:{line}: deny serve-application-invalid {where}: " in out


@pytest.mark.parametrize("output", ["json", "github", "sarif"])
def test_a_file_that_cannot_be_read_is_in_the_report_of_every_format(
    validate: Validate, file: Write, output: str
) -> None:
    status, out, _ = validate(file("a: [\n", "open.yaml"), "-o", output)
    assert status == 2
    assert "open.yaml" in out
    assert "not YAML" in out


def test_a_bug_in_a_rule_is_a_finding_and_keeps_no_other_object_from_being_checked(
    validate: Validate, file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_with_a_bug(kind: str, document: object, settings: RuleSettings) -> list[Finding]:
        if "odd" in str(document):
            raise RecursionError("a bug")
        return check_file(kind, document, settings)

    monkeypatch.setattr("webhook.cli.file_checks.check_file", check_with_a_bug)
    odd = file(BROKEN.replace("name: demo", "name: odd"), "a.yaml")
    status, out, err = validate(odd, file(BROKEN), "-o", "json")
    assert status == 2
    assert {"num-of-hosts-invalid", "unreadable"} <= {each["rule"] for each in json.loads(out)}
    assert f"{odd}:2: RayCluster default/odd cannot be checked: a bug of ray-webhook" in err
    assert "RecursionError: a bug" in err


def test_findings_of_a_baseline_are_left_out_and_new_ones_are_not(
    validate: Validate, file: Write
) -> None:
    baseline = file(validate(file(WARNED), "-o", "json")[1], "baseline.json")
    moved = file(f"# moved\n{WARNED}")
    status, out, err = validate(moved, "--strict", "--baseline", baseline)
    assert (status, out) == (0, "")
    assert "1 known from the baseline" in err
    assert validate(file(BROKEN), "--baseline", baseline)[1].count("\n") == 1
    assert validate(moved, "--baseline", file("{}", "no.json"))[0] == 2
    status, _, err = validate(moved, "--baseline", "nowhere.json")
    assert (status, err.partition("nowhere")[0]) == (2, "ray-webhook validate: --baseline ")


@pytest.mark.parametrize(
    ("version", "kind"),
    [("ray.io/v1", "Raycluster"), ("ray.io/v2", "RayCluster"), ("ray.io/v1", "RayClustr"),
     ("v1", "RayJob")],
)  # fmt: skip
def test_an_object_that_should_be_one_of_rays_and_is_not_is_no_success(
    validate: Validate, file: Write, version: str, kind: str
) -> None:
    text = CLEAN.replace("ray.io/v1", version).replace("RayCluster", kind)
    status, _, err = validate(file(text))
    assert status == 2
    assert f"there is no {kind} in {version}" in err
    assert "write apiVersion ray.io/v1 and kind Ray" in err


@pytest.mark.parametrize(("wrong", "told"), [
    ("apiVersion: rayio/v1\nkind: RayCluster", "there is no RayCluster in rayio/v1"),
    ("kind: RayCluster", "it has no apiVersion"),
    ("apiversion: ray.io/v1\nkind: RayCluster", "it has no apiVersion"),
    ("apiVersion: [ray.io/v1]\nkind: RayCluster", "it has no apiVersion"),
    ("apiVersion: ray.io/v1\nknd: RayCluster", "it has no kind"),
    ("apiVersion: ray.io/v1", "it has no kind"),
    ("apiVersion: ray.io/v1\nkind: 7", "it has no kind"),
    ("apiVersion: ray.io/v1\nkind: 'RayCluster '", "there is no RayCluster  in ray.io/v1"),
])  # fmt: skip
def test_an_object_whose_kind_or_group_alone_is_rays_is_no_success(
    validate: Validate, file: Write, wrong: str, told: str
) -> None:
    text = CLEAN.replace("apiVersion: ray.io/v1\nkind: RayCluster", wrong)
    assert text != CLEAN
    status, _, err = validate(file(text))
    assert status == 2
    meant = "write apiVersion ray.io/v1 and kind RayCluster"
    assert f"{told}: {meant}" in err


def test_nothing_to_check_is_no_success_where_something_is_required(
    validate: Validate, file: Write
) -> None:
    other = file("apiVersion: v1\nkind: Pod\n")
    assert validate(other)[0] == 0
    status, _, err = validate(other, "--require")
    assert (status, "nothing was checked" in err) == (2, True)
    assert validate(file(CLEAN), "--require")[0] == 0


def test_two_objects_of_one_name_are_noted_and_strictly_a_failure(
    validate: Validate, file: Write
) -> None:
    one, other = file(CLEAN, "one.yaml"), file(CLEAN, "other.yaml")
    status, _, err = validate(one, other)
    assert status == 0
    assert f"{other}:4: RayCluster default/demo is in {one} as well" in err
    assert validate(one, other, "--strict")[0] == 1
    apart = file(CLEAN.replace("name: demo", "name: demo\n  namespace: team"), "other.yaml")
    assert "as well" not in validate(one, apart)[2]


def test_a_vertical_autoscaler_of_a_ray_object_is_noted(validate: Validate, file: Write) -> None:
    vpa = (
        "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: v}\n"
        "spec:\n  targetRef: {apiVersion: ray.io/v1, kind: RayCluster, name: demo}\n"
    )
    held = file(f"{CLEAN}---\n{vpa}")
    status, _, err = validate(held)
    assert status == 0
    assert "VerticalPodAutoscaler of a RayCluster: no effect" in err
    assert validate(held, "--strict")[0] == 1
    assert "no effect" not in validate(file(vpa.replace("RayCluster", "Deployment")))[2]


def test_templates_of_helm_are_named_as_what_they_are(
    validate: Validate, file: Write, tmp_path: Path
) -> None:
    file("name: x", "chart/Chart.yaml")
    template = CLEAN.replace("name: demo", 'name: "{{ .Release.Name }}"')
    path = file(template, "chart/templates/ray/cluster.yaml")
    status, _, err = validate(tmp_path)
    assert status == 2
    assert f"{path}: a template of Helm: render it first, `helm template" in err


@pytest.mark.parametrize("name", ["{{ .Release.Name }}", "a\n  {{- with .Values.labels }}"])
def test_a_template_that_is_in_no_chart_has_to_be_rendered_first_too(
    validate: Validate, file: Write, name: str
) -> None:
    status, _, err = validate(file(CLEAN.replace("name: demo", f"name: {name}")))
    assert status == 2
    assert "a template, such as Helm's, has to be rendered first" in err


def test_what_lives_in_a_cluster_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene()
    scene.cluster["spec"]["workerGroupSpecs"] *= 2
    with serving(scene, tmp_path) as (server, kubeconfig):
        server.refused.clear()
        status = main(["validate", "--cluster", "--kubeconfig", str(kubeconfig)])
    out, err = capsys.readouterr()
    assert status == 1
    assert "RayCluster team/llama:0: deny group-name-duplicate" in out
    assert err.startswith("1 Ray object: ")


RAY_OBJECTS = "/apis/ray.io/v1/namespaces/team/rayclusters"


@pytest.mark.parametrize(("times", "wanted"), [(3, 0), (100, 2)])
def test_an_api_server_that_is_busy_is_asked_again_a_few_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], times: int, wanted: int
) -> None:
    with serving(Scene(), tmp_path) as (server, kubeconfig):
        server.busy[RAY_OBJECTS] = times
        assert main(["validate", "--cluster", "--kubeconfig", str(kubeconfig)]) == wanted
        asked = times - server.busy[RAY_OBJECTS]
    err = capsys.readouterr().err
    if wanted:
        assert "429" in err
        assert asked < 10
    else:
        assert err.startswith("1 Ray object: ")


def test_files_and_a_cluster_are_not_looked_at_at_once(validate: Validate, file: Write) -> None:
    assert validate(file(CLEAN), "--cluster")[0] == 2
    assert validate("--require")[0] == 2


@pytest.mark.parametrize(
    "flag", [("-n", "x"), ("-A",), ("--context", "x"), ("--kubeconfig", "x")], ids=" ".join
)
def test_flags_that_choose_a_cluster_need_one(
    validate: Validate, file: Write, flag: tuple[str, ...]
) -> None:
    status, out, err = validate(file(BROKEN), *flag)
    assert (status, out) == (2, "")
    assert "add --cluster, or leave them out" in err


class Terminal(io.StringIO):
    """A standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colour_is_for_terminals_that_want_it(
    validate: Validate,
    file: Write,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    *,
    coloured: bool,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    validate(file(BROKEN))
    assert ("\x1b[31m" in terminal.getvalue()) is coloured


def test_the_command_loads_none_of_the_servers_libraries() -> None:
    heavy = ("fastapi", "pydantic", "uvicorn", "kubernetes", "prometheus_client", "cryptography")
    code = (
        f"import sys, webhook.cli.validate; print([name for name in {heavy} if name in "
        "sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


@pytest.mark.parametrize(
    "example", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name
)
def test_the_examples_of_this_project_are_clean(validate: Validate, example: Path) -> None:
    assert validate(example)[:2] == (0, "")


def test_the_hook_for_other_repositories_runs_this_command() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"].split() == ["ray-webhook", "validate"]


def test_no_file_is_kept_once_it_is_checked(tmp_path: Path) -> None:
    cluster = a_cluster().group("a").group("b").group("c")
    size = 0
    for number in range(30):
        path = tmp_path / f"{number}.yaml"
        size += path.write_text(yaml.safe_dump(cluster.named(f"cluster-{number}").build()))
    checked, kept = alone(kept_of, tmp_path)
    assert checked == 30
    assert kept < size, "less than the text of the files is kept, let alone what it was read into"


def kept_of(folder: Path) -> tuple[int, int]:
    """Return the number of objects in a folder, and the bytes that a second report takes: the first
    fills what the process keeps once.
    """
    collect(check_files([*listed([folder])], RuleSettings(), 1))
    tracemalloc.start()
    report = collect(check_files([*listed([folder])], RuleSettings(), 1))
    return len(report.checked), tracemalloc.get_traced_memory()[0]


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A folder with files for several processes, and things that cannot be read among them."""
    for number in range(4 * file_checks.CHUNK):
        (tmp_path / f"{number:03}.yaml").write_text(BROKEN.replace("demo", f"demo-{number}"))
    (tmp_path / "017.yaml").write_text("a: [\n")
    (tmp_path / "018.yaml").write_text("kind: Service\napiVersion: v1\n")
    (tmp_path / "090.yaml").write_text(BROKEN.replace("demo", "demo-1"))
    return tmp_path


def test_several_processes_print_what_one_prints(validate: Validate, many: Path) -> None:
    alone = validate(many, "-j", "1")
    assert validate(many, "-j", "3") == alone
    assert validate(many) == alone
    assert alone[0] == 2
    assert "126 Ray objects: 126 denied" in alone[2]
    assert "1 other object skipped" in alone[2]
    assert "demo-1 is in" in alone[2]


def test_a_terminal_shows_progress_after_a_second(
    many: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = iter(range(1000))
    monkeypatch.setattr("webhook.cli.file_checks.time.monotonic", lambda: next(times) / 2)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    found = list(check_files([*listed([many])], RuleSettings(), 1))
    written = capsys.readouterr().err
    assert len(found) == 4 * file_checks.CHUNK
    assert written.startswith("\r\x1b[K2 of 128 files\r\x1b[K3 of 128 files")
    assert written.endswith("\r\x1b[K128 of 128 files\r\x1b[K")


def test_no_progress_is_shown_to_a_file(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    list(check_files([*listed([many])], RuleSettings(), 1))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("jobs", ["0", "-1", "many"])
def test_a_number_of_processes_is_1_or_more(validate: Validate, jobs: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        validate("-j", jobs, ".")
