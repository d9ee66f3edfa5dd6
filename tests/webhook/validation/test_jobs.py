"""RayJobs and RayCronJobs: schedules, the shell of submitters, and archives of code by release."""

import json
import re
import shlex
import subprocess
import sys

import pytest

from tests.harness.ray_objects import (
    Built,
    Json,
    a_cluster,
    a_cron_job,
    a_job,
    a_service,
    findings,
    found,
    rules,
)
from webhook.validation.finding import DENY, WARN
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.ruleset import check
from webhook.validation.schedule import parse_duration, problem_of
from webhook.validation.shell import wrap_in_bash

AT_ENV = "spec.runtimeEnvYAML"
ENV = ("job-runtime-env-unreadable", AT_ENV)


@pytest.mark.parametrize("text", [
    "pip: [a", "- a", "text", "a: *b", "a: \x00", "\ud800", "a: 1\n b: 2", "{" * 60_000,
    "a: " + "[" * 30_000,
])  # fmt: skip
def test_a_runtime_environment_that_is_no_map(text: str) -> None:
    assert found(a_job().spec(runtimeEnvYAML=text)) == {ENV}


@pytest.mark.parametrize("text", [
    "", "\n", "null", "~", "# nothing", "pip: [a]", "config: &x {}\nmpi: *x", '{"pip": ["a"]}',
    "working_dir: 'https://x/a.zip'", "working_dir: 2024-13-45", "# export $A\npip: [a]",
    "env_vars: {A: '5$'}", "env_vars: {A: '$HOME/x'}", "pip: [a, 'b>2;c']",
])  # fmt: skip
def test_a_runtime_environment_that_is_a_map(text: str) -> None:
    assert found(a_job().spec(runtimeEnvYAML=text)) == set()


def test_a_duplicate_key_of_a_runtime_environment_is_a_warning_and_the_last_value_counts() -> None:
    job = a_job().spec(runtimeEnvYAML="env_vars: {}\nenv_vars: [1]\n")
    (twice,) = findings(job, ENV[0])
    assert twice.level == WARN
    assert rules(job) == {ENV[0], "job-runtime-env-value-invalid"}


@pytest.mark.parametrize("schedule", [
    "* * * * *", "*/5 0-6,18-23 1 jan-mar mon-fri", "0 3 * jan-1,12-DEC 6-sat,SUN-0", "? 3 ? * ?",
    "5/15 * * * *", "@hourly", "@every 1h30m", "0 0 1,15 * 3", "*/+5 * * * *",
    "0 3 * * SUN", f"{'0 3 * * *':512}",
])  # fmt: skip
def test_a_schedule_that_kuberay_reads(schedule: str) -> None:
    assert problem_of(schedule) == ""


@pytest.mark.parametrize("schedule", [
    "", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *",
    "* * * * 7", "5-1 * * * *", "*/0 * * * *", "*/-5 * * * *", "@every 2562048h", "*/x * * * *",
    "1/2/3 * * * *", "1-2-3 * * * *", "-1 * * * *", "x * * * *", "@often", "@every soon", "@Hourly",
    f"{'0 3 * * *':513}",
])  # fmt: skip
def test_a_schedule_that_kuberay_does_not_read(schedule: str) -> None:
    assert problem_of(schedule) != ""


@pytest.mark.parametrize(("zone", "fine"), [
    ("Europe/Berlin", True), ("UTC", True), ("Local", True), ("Mars/Base", False), ("", False),
])  # fmt: skip
def test_time_zones_are_those_of_the_settings(zone: str, fine: bool) -> None:
    settings = RuleSettings(time_zones=frozenset({"Europe/Berlin"}))
    assert found(a_cron_job().spec(timeZone=zone), settings) == (
        set() if fine else {("cron-time-zone-invalid", "spec.timeZone")}
    )


@pytest.mark.parametrize("zone", ["../etc/passwd", "/etc", "a b", "a/", "a//b"])
def test_without_a_list_of_time_zones_only_their_shape_is_checked(zone: str) -> None:
    assert found(a_cron_job().spec(timeZone=zone)) == {("cron-time-zone-invalid", "spec.timeZone")}
    assert found(a_cron_job().spec(timeZone="Not/AZone")) == set()


@pytest.mark.parametrize(("zone", "levels"), [
    ("UTC", []), ("", []), ("Europe/Berlin", []), ("Nowhere/X", [DENY]),
])  # fmt: skip
def test_before_the_field_a_schedule_has_the_time_zone(zone: str, levels: list[str]) -> None:
    settings = RuleSettings(time_zones={"UTC", "Europe/Berlin"}, kuberay=(1, 6))
    cron = a_cron_job().spec(schedule=f"TZ={zone} 0 3 * * *")
    assert [each.level for each in findings(cron, settings=settings)] == levels


@pytest.mark.parametrize("template", [{}, {"spec": {}}, {"spec": {"containers": []}}])
def test_the_submitters_pod_has_a_container_where_there_is_such_a_pod(template: Json) -> None:
    path = "spec.submitterPodTemplate.spec.containers"
    job = a_job().spec(submitterPodTemplate=template)
    assert found(job) == {("job-submitter-without-container", path)}


@pytest.mark.parametrize(("text", "nanoseconds"), [
    ("0", 0), ("-0", 0), ("5m", 300 * 10**9), ("1h30m", 5400 * 10**9), ("1.5s", 1_500_000_000),
    (".5s", 500_000_000), ("1.s", 10**9), ("-1s", -(10**9)), ("+1us", 1000), ("1µs", 1000),
    ("0.0000000001s", 0), ("9223372036854775807ns", 2**63 - 1),
    ("-9223372036854775808ns", -(2**63)),
    ("9223372036854775808ns", None), ("2562048h", None), ("", None), ("1", None), (".s", None),
    ("1 s", None), ("1d", None), ("+", None), ("--1s", None), ("1h0", None),
    (f"{'1s':0>512}", 10**9), (f"{'1s':0>513}", None),
])  # fmt: skip
def test_durations_are_parsed_as_by_go(text: str, nanoseconds: int | None) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(("text", "fine"), [
    ("5m", True), ("300", True), ("", True), ("0", False), ("0s", False), ("-5m", False),
    ("-1", False), ("1d", False), ("00", False), (str(2**63 - 1), True), (str(2**63), False),
])  # fmt: skip
def test_a_timeout_as_go_reads_it(text: str, fine: bool) -> None:
    service = a_service().annotated("ray.io/initializing-timeout", text)
    assert bool(found(service)) is not fine


def test_sidecar_mode_takes_exception_to_all_that_it_does_not_have() -> None:
    job = a_job(a_cluster().head_pod(restartPolicy="Always").group()).spec(
        submissionMode="SidecarMode", submitterPodTemplate={}, submitterConfig={},
        clusterSelector={"ray.io/cluster": "x"})  # fmt: skip
    assert {path for rule, path in found(job) if rule == "job-sidecar-conflict"} == {
        "spec.clusterSelector", "spec.submitterPodTemplate", "spec.submitterConfig",
        "spec.rayClusterSpec.headGroupSpec.template.spec.restartPolicy"}  # fmt: skip


def test_an_old_deletion_strategy_is_checked_like_the_new_one() -> None:
    job = a_job(a_cluster().autoscaled().group()).spec(
        deletionStrategy={"onSuccess": {"policy": "DeleteWorkers"}, "onFailure": {}}
    )
    assert found(job) == {
        ("deletion-of-autoscaled-workers", "spec.deletionStrategy.onSuccess.policy"),
        ("deletion-incomplete", "spec.deletionStrategy.onFailure.policy"),
    }


@pytest.mark.parametrize(("length", "release", "levels"), [
    (36, (1, 7), []), (37, (1, 7), [DENY]), (37, (1, 6), []), (41, (1, 6), []),
    (42, (1, 6), [DENY]), (42, None, [DENY]), (41, None, [WARN]),
])  # fmt: skip
def test_the_name_leaves_room(
    length: int, release: tuple[int, int] | None, levels: list[str]
) -> None:
    listed = findings(a_cron_job().meta(name="a" * length), settings=RuleSettings(kuberay=release))
    assert [each.level for each in listed] == levels


@pytest.mark.parametrize("entrypoint", [None, "", " \n"])
def test_a_job_has_an_entrypoint_unless_something_else_submits_it(entrypoint: str | None) -> None:
    missing = {("job-entrypoint-missing", "spec.entrypoint")}
    for mode in ("K8sJobMode", "HTTPMode", "SidecarMode"):
        assert found(a_job().spec(entrypoint=entrypoint, submissionMode=mode)) == missing
    for command, wrong in (([], missing), (["c"], set())):
        containers = [{"name": "a", "image": "b:1", "command": command}]
        pod = {"restartPolicy": "Never", "containers": containers}
        own = a_job().spec(entrypoint=entrypoint, submitterPodTemplate={"spec": pod})
        assert found(own) == wrong


@pytest.mark.parametrize(("text", "fine"), [
    ('{"Custom_1": 1, "Custom_2": 5.5}', True), ("{}", True), ('{"a": $COUNT}', True),
    ('{"a": "1"}', False), ('{"a": true}', False), ('{"a": 1', False), ("[1]", False),
    ("[" * 4096, False), ("[" * 4097, True),
])  # fmt: skip
def test_resources_of_the_entrypoint_are_a_json_map_of_numbers(text: str, fine: bool) -> None:
    wrong = {("job-entrypoint-resources-unreadable", "spec.entrypointResources")}
    cluster = a_cluster().group(resources={"Custom_1": "1", "Custom_2": "6"})
    assert found(a_job(cluster).spec(entrypointResources=text)) == (set() if fine else wrong)


@pytest.mark.parametrize(("text", "wrong"), [
    ("pip: [torch]\nenv_vars: {A: '1'}", set()), ("conda: {dependencies: [pip]}", set()),
    ("container: {image: a}\npy_executable: uv run", set()),
    ("pip: [a]\nuv: [b]", {("job-runtime-env-value-invalid", "uv")}),
    ("env_vars: [A=1]", {("job-runtime-env-value-invalid", "env_vars")}),
    ("env_vars: {A: true}", {("job-runtime-env-value-invalid", "env_vars[A]")}),
    ("env_vars: {A: }", {("job-runtime-env-value-invalid", "env_vars[A]")}),
    ("envVars: {A: '1'}", {("job-runtime-env-key-unknown", "envVars")}),
    ("workingDir: s3://a/b.zip", {("job-runtime-env-key-unknown", "workingDir")}),
])  # fmt: skip
def test_a_runtime_environment_has_rays_keys(text: str, wrong: set[tuple[str, str]]) -> None:
    wanted = {(rule, f"spec.runtimeEnvYAML.{path}") for rule, path in wrong}
    job = a_job().spec(runtimeEnvYAML=text)
    assert found(job) == wanted
    assert rules(a_cron_job(job)) == {rule for rule, _ in wrong}


@pytest.mark.parametrize(("mode", "kuberay", "level"), [
    ("HttpMode", None, "deny"), ("sidecarmode", None, "deny"), ("Batch", None, "warn"),
    ("SidecarMode", (1, 4), "warn"), ("SidecarMode", (1, 5), ""), ("", None, ""),
])  # fmt: skip
def test_an_unknown_mode_is_found(mode: str, kuberay: tuple[int, int] | None, level: str) -> None:
    settings, job = RuleSettings(kuberay=kuberay), a_job().spec(submissionMode=mode)
    for built in (job, a_cron_job(job)):
        listed = findings(built, "job-submission-mode-unknown", settings=settings)
        assert [each.level for each in listed] == ([level] if level else [])


def test_the_advice_for_an_unknown_mode_lists_alternatives() -> None:
    (finding,) = findings(a_job().spec(submissionMode="Batch"), "job-submission-mode-unknown")
    advice = "write K8sJobMode, HTTPMode, InteractiveMode or SidecarMode"
    assert finding.message == f"'Batch' submits no job: {advice}"


@pytest.mark.parametrize(("job_id", "message"), [
    ("a" * 200, ""), ("a" * 201, "201 characters: use at most 200"),
    ("a b", "'a b': use letters, digits, '-', '_' and '.'"),
])  # fmt: skip
def test_the_submission_id_of_a_job(job_id: str, message: str) -> None:
    listed = findings(a_job().spec(jobId=job_id), "job-id-invalid")
    assert [finding.message for finding in listed] == ([message] if message else [])


@pytest.mark.parametrize("mode", ["HTTPMode", "InteractiveMode"])
@pytest.mark.parametrize("name", ["submitterPodTemplate", "submitterConfig"])
def test_a_mode_without_a_submitter_ignores_its_settings(mode: str, name: str) -> None:
    job = a_job().spec(submissionMode=mode, **{name: {}})
    assert [each.path for each in findings(job, "job-field-ignored")] == [f"spec.{name}"]
    assert not findings(job.spec(submissionMode="K8sJobMode"), "job-field-ignored")


ENTRYPOINT = "job-entrypoint-in-shell"
RUNTIME_ENV = "job-runtime-env-in-shell"
_ARGUMENTS = "import json, sys; print(json.dumps(sys.argv[1:]))"


def said(job: Built) -> str:
    (finding,) = findings(job)
    assert finding.rule in (ENTRYPOINT, RUNTIME_ENV)
    return finding.message


@pytest.mark.parametrize(("entrypoint", "part"), [
    ("cd /app && python t.py", "python t.py runs in the submitter"),
    ("python t.py || exit 1", "exit 1 runs"),
    ("pip install x; python t.py", "python t.py runs"),
    ("python t.py | tee log", "tee log runs"),
    ("python s.py & python t.py", "python t.py runs"),
    ("pip install x\npython t.py\n", "python t.py runs"),
    ("python t.py > log", "> log redirects"),
    ("python t.py 2>&1 | tee log", "tee log runs"),
    ("python t.py;", "; at the end is a syntax error"),
    ("| python t.py", "| at the beginning is a syntax error"),
    ("python t.py &", "& at the end is a syntax error"),
    ("python t.py # all", "'# all' hides the end"),
    ("(cd /app; python t.py)", "( is a syntax error"),
    ("python t.py f(x)", "put quotes around it"), ("python t.py --say don't", "is not closed"),
    ("python t.py $BUCKET", "$BUCKET is the submitter's"),
    ("python t.py ${BUCKET:-b}", "${BUCKET:-b} is the submitter's"),
    ("python t.py $(date; id)", "$(...) runs in the submitter"),
    ("python t.py `date`", "`...` runs in the submitter"),
    ('bash -c "python t.py $BUCKET"', "$BUCKET is the submitter's"),
    ('cd /app && python t.py "$BUCKET"', "python t.py"),
])  # fmt: skip
def test_a_part_of_the_entrypoint_that_the_submitter_reads(entrypoint: str, part: str) -> None:
    for mode in ("", "K8sJobMode", "SidecarMode"):
        assert part in said(a_job().spec(entrypoint=entrypoint, submissionMode=mode))
    inside = a_cron_job(a_job().spec(entrypoint=entrypoint))
    assert found(inside) == {(ENTRYPOINT, "spec.jobTemplate.entrypoint")}


@pytest.mark.parametrize("entrypoint", [
    'bash -c "cd /app && python t.py"', "bash -c 'echo $X | tee `date`'", "python t.py\n",
    "python t.py \\\n  --epochs 3", r"find . -exec ls {} \;", "python t.py --x='a;b(c)#'",
    "python t.py a#b model=[1,2]", r"python t.py \$X", r'python -c "print(\"a\")"',
    "python t.py 2>&1",
    "python t.py --id $RAY_JOB_SUBMISSION_ID --at ${RAY_DASHBOARD_ADDRESS}", "python $HOME/t.py",
    "python t.py --price 5$", r"python $'it\'s' t.py", "python t.py {a: b}",
])  # fmt: skip
def test_an_entrypoint_that_reaches_ray(entrypoint: str) -> None:
    assert found(a_job().spec(entrypoint=entrypoint)) == set()


@pytest.mark.parametrize("mode", ["HTTPMode", "InteractiveMode"])
def test_modes_without_a_shell(mode: str) -> None:
    runtime_env = "env_vars: {A: $B}"
    job = a_job().spec(entrypoint="cd $A && x", runtimeEnvYAML=runtime_env, submissionMode=mode)
    assert found(job) == set()


@pytest.mark.parametrize(("container", "fine"), [
    ({"env": [{"name": "BUCKET", "value": "b"}]}, True),
    ({"env": [{"name": "BUCKETS", "value": "b"}]}, False),
    ({"envFrom": [{"secretRef": {"name": "s"}}]}, True),
    ({"command": ["bash", "/submit.sh"]}, True), ({"args": ["x"]}, False),
])  # fmt: skip
def test_the_template_of_the_submitter(container: dict[str, object], fine: bool) -> None:
    containers = [{"name": "submitter", "image": "rayproject/ray:2.55.1", **container}]
    pod = {"restartPolicy": "Never", "containers": containers}
    job = a_job().spec(entrypoint="python t.py $BUCKET", submitterPodTemplate={"spec": pod})
    assert found(job) == (set() if fine else {(ENTRYPOINT, "spec.entrypoint")})


def test_kuberay_without_this_shell() -> None:
    job = a_job().spec(entrypoint="cd /app && python t.py")
    assert found(job, RuleSettings(kuberay=(1, 2))) == set()
    assert found(job, RuleSettings(kuberay=(1, 3))) == {(ENTRYPOINT, "spec.entrypoint")}


@pytest.mark.parametrize(("fields", "path"), [
    ({"runtimeEnvYAML": "working_dir: s3://$BUCKET/a.zip"}, "spec.runtimeEnvYAML"),
    ({"runtimeEnvYAML": r"env_vars: {A: '\$B'}"}, "spec.runtimeEnvYAML"),
    ({"runtimeEnvYAML": "pip: [a, '`b`']"}, "spec.runtimeEnvYAML"),
    ({"metadata": {"team": "$TEAM"}}, "spec.metadata[team]"),
])  # fmt: skip
def test_a_variable_beside_the_entrypoint(fields: dict[str, object], path: str) -> None:
    assert found(a_job().spec(**fields)) == {(RUNTIME_ENV, path)}


@pytest.mark.parametrize("text", [
    "echo a && echo b", "echo 'a  b'; echo c", 'echo "a  b" | cat', "echo a\necho b\n",
    "(cd / && pwd)", "echo a |\ncat", "true || echo x; echo '*'", "sleep 0 &\necho b",
])  # fmt: skip
def test_the_command_to_write_instead_does_the_same(text: str) -> None:
    """Both ways in which `ray job submit` joins arguments keep the command."""
    message = said(a_job().spec(entrypoint=text))
    remedy = wrap_in_bash(text)
    assert message.endswith(f"write {remedy}")
    program = f"{shlex.quote(sys.executable)} -c {shlex.quote(_ARGUMENTS)}"
    arguments = json.loads(_bash(f"{program} {remedy}"))
    for join in (subprocess.list2cmdline, shlex.join):
        assert _bash(join(arguments)) == _bash(text)


@pytest.mark.parametrize("text", [
    "cd $A && x", r"cd a\ b && x", "for i in 1 2\ndo x\ndone", """a 'b' && c "d" """, "# x\na\nb",
])  # fmt: skip
def test_a_command_that_no_quotes_protect_needs_a_script(text: str) -> None:
    assert re.search("script in the image", said(a_job().spec(entrypoint=text)))
    assert wrap_in_bash(text) == ""


def _bash(command: str) -> str:
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True, text=True)
    return done.stdout


NO_ARCHIVE = "working-dir-no-archive"
UNKNOWN_IMAGE = "registry.example/app:1"


def with_release(release: str, environment: str) -> set[tuple[str, str]]:
    """Return the findings in a RayJob whose image names this release, or none."""
    image = f"rayproject/ray:{release}" if release else UNKNOWN_IMAGE
    cluster = a_cluster().spec(rayVersion=release or None).head_container(image=image)
    return found(a_job(cluster).spec(runtimeEnvYAML=environment))


@pytest.mark.parametrize("release", ["2.40.0", "2.54.1", "2.57.0", "2.60.0", ""])
@pytest.mark.parametrize("address", [
    "https://github.com/u/r", "https://github.com/u/r/archive/refs/heads/main", "s3://b/dir/",
    "git+https://github.com/u/r.git", "ssh://git@github.com/u/r", "https://x/a.zip.txt",
    "https://x/a?file=b.zip", "hdfs://x/a.zip", "gs://b/a.ZIP", "s3://b/a.jar",
])  # fmt: skip
def test_an_address_that_no_ray_takes(release: str, address: str) -> None:
    path = f"{AT_ENV}.working_dir"
    assert with_release(release, f"working_dir: '{address}'") == {(NO_ARCHIVE, path)}
    assert with_release(release, f"py_modules: ['{address}']") == {
        (NO_ARCHIVE, f"{AT_ENV}.py_modules[0]")
    }


@pytest.mark.parametrize("release", ["2.40.0", "2.54.1", "2.57.0", "2.60.0", ""])
@pytest.mark.parametrize("address", [
    "https://github.com/u/r/archive/main.zip", "s3://b/a.zip", "gs://b/a.zip", "file:///app/a.zip",
    "https://x/a.zip?token=x/y", "abfss://c@a.dfs.core.windows.net/a.zip", "/app", "./src",
    "gcs://_ray_pkg_1.zip", "HTTPS://x/a.zip",
])  # fmt: skip
def test_an_address_that_every_ray_takes(release: str, address: str) -> None:
    assert with_release(release, f"working_dir: '{address}'") == set()
    assert with_release(release, f"py_modules: ['{address}']") == set()


@pytest.mark.parametrize(("address", "refused"), [
    ("https://x/a.tar.gz", ["2.54.1"]), ("https://x/a.tgz", ["2.54.1"]),
    ("https://x/a.tar.xz", ["2.54.1", "2.55", "2.59.0"]), ("http://x/a.zip", ["2.54.1"]),
    ("local:///app", ["2.54.1", "2.55", "2.59.0"]), ("https://x/a.whl", ["2.60"]),
])  # fmt: skip
def test_an_address_that_some_releases_take(address: str, refused: list[str]) -> None:
    environment = f"working_dir: '{address}'"
    releases = ("2.54.1", "2.55", "2.59.0", "2.60", "")
    assert [each for each in releases if with_release(each, environment)] == refused


def test_every_place_of_a_runtime_environment() -> None:
    wrong = "{working_dir: 'https://github.com/u/r'}"
    job = a_job().spec(runtimeEnvYAML=wrong)
    nested = "spec.jobTemplate.runtimeEnvYAML.working_dir"
    assert found(a_cron_job(job)) == {(NO_ARCHIVE, nested)}
    application = f"{{import_path: 'a:b', runtime_env: {wrong}}}"
    actor = f"{{name: D, ray_actor_options: {{runtime_env: {wrong}}}}}"
    deployment = f"{{import_path: 'a:b', deployments: [{actor}]}}"
    first = "spec.serveConfigV2.applications[0]"
    for text, path in (
        (application, f"{first}.runtime_env.working_dir"),
        (deployment, f"{first}.deployments[0].ray_actor_options.runtime_env.working_dir"),
    ):
        service = a_service().spec(serveConfigV2=f"applications: [{text}]")
        assert found(service) == {(NO_ARCHIVE, path)}
    (finding,) = check("RayJob", job.build())
    assert finding.level == WARN
    assert finding.message.endswith("write https://github.com/u/r/archive/BRANCH.zip")


def test_an_address_with_a_variable_of_a_submitter() -> None:
    job = a_job().spec(runtimeEnvYAML="working_dir: s3://$BUCKET/dir", submissionMode="HTTPMode")
    assert found(job) == set()
