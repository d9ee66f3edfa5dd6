"""RayJobs and RayCronJobs: cases in addition to the examples."""

import pytest

from tests.harness.ray_objects import (
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
from webhook.validation.schedule import parse_duration, problem_of

ENV = ("job-runtime-env-unreadable", "spec.runtimeEnvYAML")


@pytest.mark.parametrize("text", [
    "pip: [a", "- a", "text", "a: *b", "a: \x00", "\ud800", "a: 1\n b: 2", "{" * 60_000,
    "a: " + "[" * 30_000,
])  # fmt: skip
def test_a_runtime_environment_that_is_no_map(text: str) -> None:
    assert found(a_job().spec(runtimeEnvYAML=text)) == {ENV}


@pytest.mark.parametrize("text", [
    "", "\n", "null", "~", "# nothing", "pip: [a]", "config: &x {}\nmpi: *x", '{"pip": ["a"]}',
    "working_dir: 'https://x/a.zip'", "working_dir: 2024-13-45",
])  # fmt: skip
def test_a_runtime_environment_that_is_a_map(text: str) -> None:
    assert found(a_job().spec(runtimeEnvYAML=text)) == set()


def test_a_duplicate_key_of_a_runtime_environment_is_a_warning_and_the_last_value_counts() -> None:
    job = a_job().spec(runtimeEnvYAML="env_vars: {}\nenv_vars: [1]\n")
    (twice,) = findings(job, ENV[0])
    assert twice.level == WARN
    assert rules(job) == {ENV[0], "job-runtime-env-value-invalid"}


@pytest.mark.parametrize("schedule", [
    "* * * * *", "*/5 0-6,18-23 1 jan-mar mon-fri", "0 3 * * SUN", "? 3 ? * ?", "5/15 * * * *",
    "@hourly", "@every 1h30m", "0 0 1,15 * 3", "*/+5 * * * *",
])  # fmt: skip
def test_a_schedule_that_kuberay_reads(schedule: str) -> None:
    assert problem_of(schedule) == ""


@pytest.mark.parametrize("schedule", [
    "", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *",
    "* * * * 7", "5-1 * * * *", "*/0 * * * *", "*/-5 * * * *", "@every 2562048h", "*/x * * * *",
    "1/2/3 * * * *", "1-2-3 * * * *", "-1 * * * *", "x * * * *", "@often", "@every soon", "@Hourly",
    "* * * * *" * 100,
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
])  # fmt: skip
def test_durations_are_parsed_as_by_go(text: str, nanoseconds: int | None) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(("text", "fine"), [
    ("5m", True), ("300", True), ("", True), ("0", False), ("0s", False), ("-5m", False),
    ("-1", False), ("1d", False), (str(2**63 - 1), True), (str(2**63), False),
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
    ("[" * 4000, False),
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
