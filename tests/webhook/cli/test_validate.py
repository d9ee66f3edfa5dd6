"""`ray-webhook validate`: output, line numbers and exit codes."""

import gc
import io
import json
import os
import re
import sys
import tracemalloc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jsonschema
import pytest
import yaml

from tests import ROOT
from tests.harness.ray_objects import Built, Json, a_cluster, a_job, a_service
from tests.harness.running import At, Run, Write
from tests.harness.scenes import Scene
from tests.harness.served import Server
from tests.harness.work import run_in_own_process
from webhook.cli.file_checks import CHUNK, check_files
from webhook.config.configuration import Settings, ValidationSettings
from webhook.config.settings_file import SECTIONS, RulesOfFile
from webhook.manifest.yaml_values import DuplicateKey
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

GROUP = "spec.workerGroupSpecs[0]"
SETTINGS = "apiVersion: config.ray-webhook.dev/v1alpha1\nkind: Configuration\n"


@pytest.fixture
def validate(run: Run) -> Run:
    return partial(run, "validate")


def test_findings_are_printed_with_line_and_fail_the_command(validate: Run, write: Write) -> None:
    path = write(BROKEN)
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
    assert err == "1 error, 1 warning in 1 object\n"


def test_the_only_allowed_number_of_replicas_is_no_range(validate: Run, write: Write) -> None:
    fixed = CLEAN.replace("maxReplicas: 10", "minReplicas: 2\n    maxReplicas: 2")
    said = "replicas is 9, so KubeRay takes 2: write 2, or change the bounds"
    assert said in validate(write(fixed)).out


def test_warnings_fail_the_command_only_if_strict(validate: Run, write: Write) -> None:
    path = write(WARNED)
    assert (validate(path).status, validate(path, "--strict").status) == (0, 1)


def test_other_kinds_are_skipped_and_counted(validate: Run, write: Write) -> None:
    path = write(f"apiVersion: v1\nkind: Pod\n---\n# nothing\n---\njust: values\n---\n{CLEAN}")
    said = "0 errors, 0 warnings in 1 object; 2 other objects skipped\n"
    assert validate(path) == (0, "", said)


def test_a_pipe_is_read_once(validate: Run) -> None:
    reader, writer = os.pipe()
    os.write(writer, BROKEN.encode())
    os.close(writer)
    status, out, _ = validate(f"/dev/fd/{reader}")
    os.close(reader)
    assert (status, " deny " in out) == (1, True)


def test_a_missing_field_is_reported_at_its_parent(validate: Run, write: Write) -> None:
    path = write(CLEAN.replace("spec:\n  head", "spec:\n  enableInTreeAutoscaling: yes\n  head"))
    lines = path.read_text().splitlines()
    out = validate(path).out.splitlines()
    assert [line.split(" ")[2] for line in out] == ["cpu-unknown", "cpu-unknown"]
    for line in out:
        assert "containers" in lines[int(line.split(":")[1]) - 1]


def test_a_field_behind_an_alias_is_reported_where_it_stands(validate: Run, write: Write) -> None:
    path = write("""\
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
        for line in validate(path).out.splitlines()
    ] == [
        "7 spec.headGroupSpec.rayStartParams[num_cpus]:",
        "7 spec.workerGroupSpecs[0].rayStartParams[num_cpus]:",
        "15 spec.workerGroupSpecs[1].numOfHosts:",
        "17 spec.workerGroupSpecs[1].rayStartParams[oops]:",
    ]


def test_an_unreadable_file_keeps_no_other_from_its_check(validate: Run, write: Write) -> None:
    wrong, other = write("a: [1\n", name="wrong.yaml"), write(BROKEN)
    status, out, err = validate(wrong, "none.yaml", other)
    assert status == 2
    assert [line.partition(": ")[0] for line in err.splitlines()[:2]] == [f"{wrong}:2", "none.yaml"]
    assert f"{other}:13" in out


def test_unknown_rules_and_gates_are_errors(validate: Run, write: Write) -> None:
    rules = ("--rule", "no-such-rule=off", "--rule", "tpu-topology-mismach=off")
    gates = ("--gate", "RayClusterMTLS=perhaps", "--gate", "RayClusterMTL=true")
    status, _, err = validate(write(CLEAN), *rules, *gates, "--kuberay", "newest")
    assert (status, len(err.splitlines())) == (2, 5)
    assert "--kuberay newest: write a release such as 1.6" in err
    assert "did you mean tpu-topology-mismatch?" in err
    assert "did you mean RayClusterMTLS?" in err


def test_rules_and_gates_can_be_set(validate: Run, write: Write) -> None:
    path = write(BROKEN)
    assert validate(
        path, "--rule", "num-of-hosts-invalid=off", "--rule", "replicas-out-of-bounds=off"
    )[:2] == (0, "")
    gated = write(
        json.dumps(a_cluster().spec(tlsOptions={"enabled": True}).build()), name="gated.json"
    )
    status, out, _ = validate(gated)
    assert (status, "warn feature-gate-off" in out) == (0, True)
    assert validate(gated, "--gate", "RayClusterMTLS=false").status == 1
    assert validate(gated, "--gate", "MTLS").err.count("\n") == 1
    status, out, _ = validate(gated, "--gate", "RayClusterMTLS=true")
    assert (status, "feature-gate-off" in out) == (0, False)


def test_json_output_has_every_finding(validate: Run, write: Write) -> None:
    path = write(BROKEN)
    first, _ = json.loads(validate(path, "-o", "json").out)
    assert first == {
        "file": str(path), "line": 13, "level": "deny", "rule": "num-of-hosts-invalid",
        "path": f"{GROUP}.numOfHosts",
        "message": 'worker group "workers": numOfHosts is 0: write 1 to 4096'}  # fmt: skip
    assert json.loads(validate(write(CLEAN), "-o", "json").out) == []


def test_github_output_is_one_workflow_command_a_finding(validate: Run, write: Write) -> None:
    path = write(BROKEN, name="50%,a:b.yaml")
    out = validate(path, "-o", "github").out.splitlines()
    escaped = str(path).replace("%", "%25").replace(",", "%2C").replace(":", "%3A")
    assert out[0].startswith(
        "::error "
        f"file={escaped},line=13,title=num-of-hosts-invalid::spec.workerGroupSpecs[0].numOfHosts: "
        'worker group "workers": numOfHosts is 0: '
    )
    assert out[1].startswith(f"::warning file={escaped},line=14,title=replicas-out-of-bounds::")


SARIF_SCHEMA = json.loads((Path(__file__).parent / "sarif-2.1.0-rtm.5.json").read_text())


def test_sarif_output_is_what_its_schema_says_and_names_files_as_a_repository_does(
    validate: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    twice = write(f"{BROKEN}---\n{BROKEN}", name="a b.yaml")
    status, out, _ = validate(twice, write("a: [1\n", name="not.yaml"), "-o", "sarif")
    log: Any = json.loads(out)
    jsonschema.Draft4Validator(SARIF_SCHEMA).validate(log)
    assert status == 2
    (run_,) = log["runs"]
    rules, results = run_["tool"]["driver"]["rules"], run_["results"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in RULES]
    assert {rule["defaultConfiguration"]["level"] for rule in rules} == {"error", "warning"}
    assert all(rule["shortDescription"]["text"] for rule in rules)
    assert any("helpUri" in rule for rule in rules)
    prints = [each.pop("partialFingerprints")["fileRulePath/v1"] for each in results]
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in prints)
    assert len(set(prints)) == len(prints) == 4
    index = [rule.id for rule in RULES].index("num-of-hosts-invalid")
    where, said = f"{GROUP}.numOfHosts", 'worker group "workers": numOfHosts is 0: write 1 to 4096'
    place: Json = {"artifactLocation": {"uri": "a%20b.yaml"}, "region": {"startLine": 13}}
    assert results[0] == {
        "ruleId": "num-of-hosts-invalid", "ruleIndex": index, "level": "error",
        "message": {"text": f"{where}: {said}"},
        "locations": [{
            "physicalLocation": place,
            "logicalLocations": [{"fullyQualifiedName": where}]}]}  # fmt: skip
    (invocation,) = run_["invocations"]
    assert invocation["executionSuccessful"] is False
    error, warning = invocation["toolExecutionNotifications"]
    place = error["locations"][0]["physicalLocation"]
    assert (error["level"], place["artifactLocation"]["uri"]) == ("error", "not.yaml")
    assert warning["level"] == "warning", "two objects of one name"


def test_a_finding_keeps_its_fingerprint_when_lines_move(validate: Run, write: Write) -> None:
    def prints(text: str) -> list[str]:
        results = json.loads(validate(write(text), "-o", "sarif").out)["runs"][0]["results"]
        return [each["partialFingerprints"]["fileRulePath/v1"] for each in results]

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
def test_a_finding_in_a_text_has_a_line(validate: Run, write: Write, style: str, line: int) -> None:
    path = write(SERVICE.replace("@", style))
    status, out, _ = validate(path)
    assert status == 1
    if style == ">":
        assert out.startswith(f"{path}:{line}: deny serve-config-unreadable ")
    else:
        where = "spec.serveConfigV2.applications[0].import_path"
        assert f"{path}:{line}: deny serve-application-invalid {where}: " in out


@pytest.mark.parametrize("output", ["json", "github", "sarif"])
def test_an_unreadable_file_is_in_every_format(validate: Run, write: Write, output: str) -> None:
    status, out, _ = validate(write("a: [\n", name="open.yaml"), "-o", output)
    assert status == 2
    assert "open.yaml" in out
    assert "not YAML" in out


def test_a_bug_is_a_finding(validate: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def check_with_a_bug(
        kind: str, document: object, settings: RuleSettings, duplicates: Sequence[DuplicateKey]
    ) -> list[Finding]:
        if "odd" in str(document):
            raise RecursionError("a bug")
        return check_file(kind, document, settings, duplicates)

    monkeypatch.setattr("webhook.cli.file_checks.check_file", check_with_a_bug)
    odd = write(BROKEN.replace("name: demo", "name: odd"), name="a.yaml")
    status, out, err = validate(odd, write(BROKEN), "-o", "json")
    assert status == 2
    assert {"num-of-hosts-invalid", "unreadable"} <= {each["rule"] for each in json.loads(out)}
    assert f"{odd}:2: RayCluster default/odd cannot be checked: a bug of ray-webhook" in err
    assert "RecursionError: a bug" in err


def test_findings_of_a_baseline_are_left_out_new_ones_not(validate: Run, write: Write) -> None:
    baseline = write(validate(write(WARNED), "-o", "json")[1], name="baseline.json")
    moved = write(f"# moved\n{WARNED}")
    status, out, err = validate(moved, "--strict", "--baseline", baseline)
    assert (status, out) == (0, "")
    assert "1 known from the baseline" in err
    assert validate(write(BROKEN), "--baseline", baseline).out.count("\n") == 1
    assert validate(moved, "--baseline", write("{}", name="no.json")).status == 2
    status, _, err = validate(moved, "--baseline", "nowhere.json")
    assert (status, err.partition("nowhere")[0]) == (2, "ray-webhook validate: --baseline ")


def test_nothing_to_check_is_no_success_if_required(validate: Run, write: Write) -> None:
    other = write("apiVersion: v1\nkind: Pod\n")
    assert validate(other).status == 0
    status, _, err = validate(other, "--require")
    assert (status, err.partition(":")[0], "nothing was checked" in err) == (2, str(other), True)
    assert validate(write(CLEAN), "--require").status == 0


def test_two_objects_of_one_name_are_noted_strictly_a_fault(validate: Run, write: Write) -> None:
    one, other = write(CLEAN, name="one.yaml"), write(CLEAN, name="other.yaml")
    status, _, err = validate(one, other)
    assert status == 0
    assert f"{other}:4: RayCluster default/demo is in {one} as well" in err
    assert validate(one, other, "--strict").status == 1
    twice = write(f"{CLEAN}---\n{CLEAN}")
    assert "RayCluster default/demo is in this file twice" in validate(twice).err
    apart = write(CLEAN.replace("name: demo", "name: demo\n  namespace: team"), name="other.yaml")
    assert "as well" not in validate(one, apart)[2]


@pytest.mark.parametrize(("scaler", "field"), [
    ("VerticalPodAutoscaler", "targetRef"), ("HorizontalPodAutoscaler", "scaleTargetRef"),
    ("ScaledObject", "scaleTargetRef"),
])  # fmt: skip
def test_other_autoscalers_are_noted(scaler: str, field: str, validate: Run, write: Write) -> None:
    vpa = (
        f"apiVersion: autoscaling.k8s.io/v1\nkind: {scaler}\nmetadata: {{name: v}}\n"
        f"spec:\n  {field}: {{apiVersion: ray.io/v1, kind: RayCluster, name: demo}}\n"
    )
    held = write(f"{CLEAN}---\n{vpa}")
    status, _, err = validate(held)
    assert status == 0
    assert f"{scaler} of a RayCluster: no effect" in err
    assert validate(held, "--strict").status == 1
    assert "no effect" not in validate(write(vpa.replace("RayCluster", "Deployment")))[2]


def test_templates_of_helm_are_named_so(validate: Run, write: Write, tmp_path: Path) -> None:
    write("name: x", name="chart/Chart.yaml")
    template = CLEAN.replace("name: demo", 'name: "{{ .Release.Name }}"')
    path = write(template, name="chart/templates/ray/cluster.yaml")
    status, _, err = validate(tmp_path)
    assert status == 2
    assert f"{path}: a template of Helm: render it first, `helm template" in err


@pytest.mark.parametrize("name", ["{{ .Release.Name }}", "a\n  {{- with .Values.labels }}"])
def test_a_template_in_no_chart_is_rendered_first(validate: Run, write: Write, name: str) -> None:
    status, _, err = validate(write(CLEAN.replace("name: demo", f"name: {name}")))
    assert status == 2
    assert "a template, such as Helm's, has to be rendered first" in err


@pytest.mark.parametrize("name", ["'{{ .Release.Name }}'", "${NAME}"])
def test_a_name_of_a_template_has_to_be_rendered(name: str, validate: Run, write: Write) -> None:
    status, out, _ = validate(write(CLEAN.replace("name: demo", f"name: {name}")))
    assert (status, "has to be rendered first" in out) == (1, True)


def test_objects_of_a_cluster_are_checked(at: At) -> None:
    scene = Scene()
    scene.cluster["spec"]["workerGroupSpecs"] *= 2
    status, out, err = at(scene, "validate", "--cluster")
    assert status == 1
    assert "RayCluster team/llama:0: deny group-name-duplicate" in out
    assert " in 1 object" in err


@pytest.mark.parametrize(("minor", "warned"), [("32", True), ("33", False)])
def test_the_release_of_kubernetes_is_that_of_the_cluster(at: At, minor: str, warned: bool) -> None:
    scene = Scene()
    maxima = {"max-cpu": "99", "max-memory": "999Gi", "resize-timeout": 60}
    annotation = json.dumps({"groups": {"headgroup": maxima}})
    scene.cluster["metadata"].setdefault("annotations", {})["ray.io/ippr"] = annotation

    def change(server: Server) -> None:
        server.answers["/version"] = {"major": "1", "minor": minor}

    _, out, _ = at(scene, "validate", "--cluster", change=change)
    assert ("Kubernetes 1.32 resizes no pods" in out) is warned


RAY_OBJECTS = "/apis/ray.io/v1/namespaces/team/rayclusters"


def test_a_request_to_a_busy_api_server_is_repeated_a_few_times(at: At) -> None:
    busy: dict[str, int] = {}

    def change(server: Server) -> None:
        nonlocal busy
        busy = server.busy
        busy[RAY_OBJECTS] = times

    times = 3
    ended = at(Scene(), "validate", "--cluster", change=change)
    assert (ended.status, " in 1 object" in ended.err) == (0, True)
    times = 100
    ended = at(Scene(), "validate", "--cluster", change=change)
    assert (ended.status, "429" in ended.err) == (2, True)
    assert times - busy[RAY_OBJECTS] < 10


@pytest.mark.parametrize(("environment", "terminal", "coloured"), [
    ({}, True, True), ({}, False, False), ({"NO_COLOR": "1"}, True, False),
    ({"TERM": "dumb"}, True, False), ({"FORCE_COLOR": "1"}, False, True),
    ({"FORCE_COLOR": "0"}, False, False), ({"FORCE_COLOR": ""}, False, False),
])  # fmt: skip
def test_a_terminal_has_colours_that_the_environment_allows_or_forces(
    validate: Run, write: Write, environment: dict[str, str], terminal: bool, coloured: bool
) -> None:
    kept = {name: os.environ[name] for name in os.environ.keys() - {"NO_COLOR", "FORCE_COLOR"}}
    with (
        patch.dict(os.environ, kept | {"TERM": "xterm"} | environment, clear=True),
        patch.object(sys.stdout, "isatty", lambda: terminal),
    ):
        assert ("\x1b[31m" in validate(write(BROKEN)).out) is coloured


@pytest.mark.parametrize(
    "example", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name
)
def test_the_examples_of_this_project_are_clean(validate: Run, example: Path) -> None:
    assert validate(example)[:2] == (0, "")


def test_the_hook_for_other_repositories_runs_this_command() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"].split() == ["ray-webhook", "validate"]


def test_a_duplicate_key_and_a_broken_document_hide_no_finding(validate: Run, write: Write) -> None:
    text = BROKEN.replace("  name: demo\n", "  name: old\n  name: demo\n")
    path = write(f"a: [\n---\n{text}")
    status, out, err = validate(path)
    assert status == 2
    assert (
        f"{path}:8: warn key-duplicate metadata.name: duplicate key 'name', first on line 7" in out
    )
    assert " deny num-of-hosts-invalid spec.workerGroupSpecs[0].numOfHosts: " in out
    assert f"{path}:2: not YAML: " in err


def test_a_nested_ray_object_is_checked_with_its_path(validate: Run, write: Write) -> None:
    inner = "".join(f"      {line}\n" for line in BROKEN.splitlines())
    path = write(f"kind: AppWrapper\nspec:\n  components:\n  - template:\n{inner}")
    status, out, err = validate(path)
    assert status == 1
    assert " deny num-of-hosts-invalid spec.components[0].template.spec.workerGroupSpecs[0]" in out
    assert "1 error, " in err


def _service(name: str, **meta: object) -> str:
    metadata = {"name": name, **meta}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Service", "metadata": metadata})


@pytest.mark.parametrize("place", ["folder", "folder above", "flag"])
def test_levels_are_those_of_the_settings_file_of_a_repository(
    validate: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    broken = write(BROKEN)
    (rule,) = {line.split()[2] for line in validate(broken).out.splitlines() if " deny " in line}
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    name = "settings.yaml" if place == "flag" else ".ray-webhook.yaml"
    (tmp_path / name).write_text(f"{SETTINGS}validation: {{levels: {{{rule}: off}}}}\n")
    monkeypatch.chdir(tmp_path if place == "folder" else below)
    flags = ["--config", str(tmp_path / name)] if place == "flag" else []
    assert f" {rule} " not in validate(broken, *flags).out
    assert f" {rule} " in validate(broken, *flags, "--rule", f"{rule}=warn").out


@pytest.mark.parametrize(("text", "said"), [
    ("validation: {levels: {nope: off}}", "there is no rule 'nope'"),
    ("validation: {levels: {tpu-topology-mismatch: on}}",
     " cannot be 'on': write off, warn or deny"),
    ("validation: {level: {}}", "says what to write"),
    ("devices: {GPU: [a/b]}", "device GPU exists: use another name; `ray-webhook settings"),
    ("profiles: {fabric: {A: 1}}", "$.profiles"),
    ("validations: {levels: {}}", "there is no section 'validations'; known are "),
    ("validation: {kuberay: '9.9'}", "there are no rules for KubeRay 9.9: write one of 1.1, "),
    ("validation: {kuberay: '1.0'}", ", 1.6, 1.7\n"),
    ("validation: {kuberay: new}", "validation.kuberay is 'new': write a release such as 1.6"),
])  # fmt: skip
def test_a_wrong_settings_file_is_refused(
    validate: Run, write: Write, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "settings.yaml").write_text(SETTINGS + text)
    ended = validate(write(BROKEN), "--config", str(tmp_path / "settings.yaml"))
    assert (ended.status, said in ended.err, "settings.yaml" in ended.err) == (2, True, True)


def test_the_settings_file_of_a_repository_has_the_settings_of_all_processes() -> None:
    assert {*SECTIONS} == {field.alias or name for name, field in Settings.model_fields.items()}
    assert {*RulesOfFile.__struct_fields__} == {*ValidationSettings.model_fields}


NEEDED = "has the name that KubeRay needs for RayCluster default/demo"
REPLACED = "KubeRay replaces ports and selector of this Service"
OWN_HEAD: Json = {"headService": {"metadata": {"name": "own"}}}


@pytest.mark.parametrize(("built", "service", "notice"), [
    (a_cluster().group(hosts=2), _service("demo-head-svc"), NEEDED),
    (a_cluster().group(hosts=2), _service("demo-headless"), NEEDED),
    (a_cluster().group(hosts=2), _service("demo-head-svc", namespace="team"), ""),
    (a_cluster().group(hosts=2), _service("demo"), ""),
    (a_cluster().group(hosts=2), _service("demo-head-svc", labels={"ray.io/cluster": "demo"}), ""),
    (a_cluster("other").group(hosts=2), _service("demo-head-svc"), ""),
    (a_cluster().head(**OWN_HEAD), _service("own"), NEEDED),
    (a_cluster().head(**OWN_HEAD), _service("demo-head-svc"), ""),
    (a_service(), _service("demo-head-svc"), REPLACED),
    (a_service(), _service("demo-serve-svc"), REPLACED),
    (a_service(), _service("demo-headless"), ""),
])  # fmt: skip
def test_a_service_with_a_name_of_kuberays_is_noted(
    built: Built, service: str, notice: str, validate: Run, write: Write
) -> None:
    err = validate(write(f"{yaml.safe_dump(built.build())}---\n{service}")).err
    assert [text for text in (NEEDED, REPLACED) if text in err] == [notice] * bool(notice)


def test_variables_in_an_object_of_another_are_not_checked(validate: Run, write: Write) -> None:
    built = a_cluster("a-${schema.metadata.name}").group(numOfHosts="${spec.hosts}")
    inner = yaml.safe_dump(built.tpu("4x4", 4).build())
    indented = "".join(f"      {line}\n" for line in inner.splitlines())
    graph = f"kind: ResourceGraphDefinition\nspec:\n  resources:\n  - template:\n{indented}"
    assert validate(write(graph))[:2] == (0, "")
    assert validate(write(inner)).status == 1
    manifest = "".join(f"        {line}\n" for line in inner.replace("${", "{{").splitlines())
    flow = f"kind: Workflow\nspec:\n  templates:\n  - resource:\n      manifest: |\n{manifest}"
    assert validate(write(flow))[:2] == (0, "")


PART = (
    "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: demo}\nspec: {rayVersion: 2.53.0}\n"
)
RIGHT = yaml.safe_dump(a_cluster().group().build())


QUOTA = """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: team-a}
spec: {hard: {pods: "4"}}
---
"""


def test_a_quota_in_another_file(validate: Run, write: Write) -> None:
    status, out, _ = validate(write(CLEAN, name="demo.yaml"), write(QUOTA, name="quota.yaml"))
    assert status == 0
    assert "warn quota-exceeded spec.workerGroupSpecs[0].replicas: " in out
    assert "need 10 of pods for replicas, but ResourceQuota team-a has 4 left" in out


def test_a_quota_in_standard_input(validate: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CLEAN + "---\n" + QUOTA
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert "quota-exceeded" in validate("-")[1]


@pytest.mark.parametrize("patches", [
    "patches: [{path: patches/a.yaml}]",
    "patches:\n- target: {kind: RayCluster}\n  path: ./patches/a.yaml",
    "patchesStrategicMerge: [patches/../patches/a.yaml]",
    "patchesJson6902: [{path: patches/a.yaml}]",
    "kind: Component\npatches: [{patch: 'a: 1\n'}, {path: patches/a.yaml}]",
])  # fmt: skip
@pytest.mark.parametrize("patch", [PART, PART.replace("demo", "other"), "- {op: remove}\n"])
def test_a_named_patch_is_skipped(patches: str, patch: str, tmp_path: Path, validate: Run) -> None:
    (tmp_path / "patches").mkdir()
    (tmp_path / "patches" / "a.yaml").write_text(patch)
    (tmp_path / "cluster.yaml").write_text(RIGHT)
    (tmp_path / "kustomization.yml").write_text(f"resources: [cluster.yaml]\n{patches}\n")
    status, out, err = validate(tmp_path, "--strict")
    assert (status, out) == (0, "")
    notice = (
        f"{tmp_path / 'patches' / 'a.yaml'}: a patch of {tmp_path / 'kustomization.yml'}, skipped"
    )
    assert f"{notice}: check `kubectl kustomize {tmp_path} | ray-webhook validate -`" in err
    assert "0 errors, 0 warnings in 1 object; 1 patch skipped; 1 other object skipped" in err


@pytest.mark.parametrize("base", ["a.yaml", "z.yaml"])
def test_an_object_without_a_head_patches_another(base: str, tmp_path: Path, validate: Run) -> None:
    (tmp_path / "k.yaml").write_text(PART.replace("{name: demo}", "{name: demo, namespace: team}"))
    (tmp_path / base).write_text(RIGHT)
    status, out, err = validate(tmp_path, "--strict")
    assert (status, out) == (0, "")
    assert f"k.yaml:3: a patch of RayCluster team/demo in {tmp_path / base}, skipped" in err


def test_an_object_without_a_head_is_checked(tmp_path: Path, validate: Run, write: Write) -> None:
    assert validate(write(PART)).status == 1
    assert validate(write(f"{RIGHT}---\n{PART}")).status == 1, "one file is no base and patch"
    (tmp_path / "other.yaml").write_text(RIGHT.replace("name: demo", "name: other"))
    assert validate(write(PART), tmp_path / "other.yaml").status == 1
    job = yaml.safe_dump({**a_job().build(), "spec": {"entrypoint": ""}})
    (tmp_path / "b.yaml").write_text(job)
    assert validate(write(job, name="a.yaml"), tmp_path / "b.yaml").status == 1


def test_no_file_is_kept_once_it_is_checked(tmp_path: Path) -> None:
    cluster = a_cluster().group("a").group("b").group("c")
    size = 0
    for number in range(60):
        path = tmp_path / f"{number}.yaml"
        size += path.write_text(yaml.safe_dump(cluster.meta(name=f"cluster-{number}").build()))
    checked, kept = run_in_own_process(kept_of, tmp_path)
    assert checked == 60
    assert kept < size, "less than the text of the files is kept, let alone what it was read into"


def kept_of(folder: Path) -> tuple[int, int]:
    """Return the number of objects in a folder, and the bytes that a second report takes."""
    check_files([str(folder)], RuleSettings(), 1)
    tracemalloc.start()
    report = check_files([str(folder)], RuleSettings(), 1)
    gc.collect()  # cycles of the parsed files, whose turn may not have come yet
    return len(report.objects), tracemalloc.get_traced_memory()[0]


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A folder with files for several processes, and things that cannot be read among them."""
    for number in range(4 * CHUNK):
        (tmp_path / f"{number:03}.yaml").write_text(BROKEN.replace("demo", f"demo-{number}"))
    (tmp_path / "017.yaml").write_text("a: [\n")
    (tmp_path / "018.yaml").write_text("kind: Service\napiVersion: v1\n")
    (tmp_path / "090.yaml").write_text(BROKEN.replace("demo", "demo-1"))
    return tmp_path


def test_several_processes_print_what_one_prints(validate: Run, many: Path) -> None:
    one = validate(many, "-j", "1")
    assert validate(many, "-j", "3") == one
    assert validate(many) == one
    assert one[0] == 2
    assert "126 errors, " in one[2]
    assert "1 other object skipped" in one[2]
    assert "demo-1 is in" in one[2]


@pytest.mark.parametrize(("jobs", "started"), [(1, []), (3, [3]), (200, [4])])
def test_no_process_is_started_without_files_for_it(
    many: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, started: list[int]
) -> None:
    pools: list[int] = []

    def pool(processes: int, **_: object) -> ThreadPoolExecutor:
        pools.append(processes)
        return ThreadPoolExecutor(1)

    monkeypatch.setattr("webhook.cli.file_checks.ProcessPoolExecutor", pool)
    check_files([str(many)], RuleSettings(), jobs)
    assert pools == started
    check_files([str(many / "000.yaml")], RuleSettings(), jobs)
    assert pools == started, "one file needs no pool, which lacks semaphores in some containers"


PROGRESS = "\r\x1b[K64 of 128 files\r\x1b[K96 of 128 files\r\x1b[K128 of 128 files\r\x1b[K"


@pytest.mark.parametrize(("terminal", "seconds", "shown"), [
    (True, 0.5, PROGRESS), (True, 0.0, ""), (False, 0.5, ""),
])  # fmt: skip
def test_a_terminal_shows_progress_after_a_second(
    many: Path, terminal: bool, seconds: float, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    times = count()
    with (
        patch("webhook.cli.file_checks.time.monotonic", lambda: next(times) * seconds),
        patch.object(sys.stderr, "isatty", lambda: terminal),
    ):
        check_files([str(many)], RuleSettings(), 1)
    assert capsys.readouterr().err == shown
