"""Fields, paths and releases, and the rules that depend on the release of KubeRay."""

import pytest

from tests.harness.ray_objects import (
    Built,
    a_cluster,
    a_cron_job,
    a_job,
    a_service,
    findings,
    found,
)
from webhook.api.release import Release, image_release, parse_release, same_release
from webhook.validation.crd import NEWEST, releases
from webhook.validation.field import Field, shorten_path
from webhook.validation.finding import DENY, WARN
from webhook.validation.rule_settings import (
    DEFAULT_GATES,
    GATES,
    RuleSettings,
    default_gates,
    parse_kuberay,
)
from webhook.validation.ruleset import check, unknown_names

LONG = "a-cron-job-of-thirty-seven-characters"
COMMAND = {"env": [{"name": "KUBERAY_GEN_AUTOSCALER_START_CMD", "value": "x"}]}
GATE = {"RayServiceIncrementalUpgrade": True}


def levels(built: Built, kuberay: tuple[int, int] | None, **gates: bool) -> list[str]:
    settings = RuleSettings(gates=gates, kuberay=kuberay)
    return [each.level for each in check(built.kind, built.build(), settings)]


@pytest.mark.parametrize("built", [
    a_cron_job().meta(name=LONG),
    a_cron_job().spec(schedule="TZ=UTC 0 3 * * *"),
    a_cron_job().spec(schedule="CRON_TZ=Europe/Berlin @daily"),
    a_cron_job().spec(timeZone="Berlin time"),
    a_cluster().group().spec(enableInTreeAutoscaling=True, autoscalerOptions=COMMAND),
], ids=["name", "zone", "cron zone", "time zone", "command"])  # fmt: skip
def test_what_only_kuberay_1_7_checks(built: Built) -> None:
    assert DENY in levels(built, (1, 7))
    assert DENY not in levels(built, (1, 6))
    assert WARN in levels(built, None) or DENY in levels(built, None)


def test_a_schedule_stays_wrong_with_a_time_zone_before_it() -> None:
    for kuberay in ((1, 6), (1, 7), None):
        assert DENY in levels(a_cron_job().spec(schedule="TZ=UTC 0 25 * * *"), kuberay)
        assert DENY in levels(a_cron_job().spec(schedule="TZ=UTC"), kuberay)


def test_an_upgrade_strategy_without_a_type_ends_older_ones_with_the_gate_on() -> None:
    built = a_service().spec(upgradeStrategy={})
    assert levels(built, None) == [WARN]
    assert levels(built, (1, 7)) == []
    assert levels(built, (1, 6)) == []
    assert levels(built, (1, 6), **GATE) == [DENY]


def test_every_release_with_schemas_has_its_gates_and_the_newest_those_of_the_rules() -> None:
    assert list(DEFAULT_GATES) == releases(), "run `make kuberay` for the release"
    assert set(GATES) <= set(default_gates(None)), "rules depend on a gate that is gone"


@pytest.mark.parametrize(("job", "since"), [
    (a_job().spec(submissionMode="InteractiveMode", backoffLimit=1), 4),
    (a_job().spec(clusterSelector={"ray.io/cluster": "other"}, backoffLimit=1), 6),
])  # fmt: skip
def test_retries_of_a_job_that_cannot_be_restarted(job: Built, since: int) -> None:
    rule = "job-backoff-unsupported"
    for minor, count in ((since - 1, 0), (since, 1)):
        assert len(findings(job, rule, settings=RuleSettings(kuberay=(1, minor)))) == count


@pytest.mark.parametrize(("release", "refused"), [
    (None, False), ((1, 0), True), ((1, 1), False), (NEWEST, False), ((1, NEWEST[1] + 1), True),
    ((2, 1), True),
])  # fmt: skip
def test_a_release_without_rules_is_refused(release: tuple[int, int] | None, refused: bool) -> None:
    assert bool(unknown_names(RuleSettings(kuberay=release))) is refused


@pytest.mark.parametrize(("text", "release"), [("", None), ("1.6", (1, 6)), ("v1.6.2", (1, 6))])
def test_a_release_is_read(text: str, release: tuple[int, int] | None) -> None:
    assert parse_kuberay(text) == release


def test_the_autoscaler_has_the_release_of_the_head() -> None:
    cluster = a_cluster().group().autoscaled(image="rayproject/ray:2.40.0")
    assert found(cluster) == {("image-version-mismatch", "spec.autoscalerOptions.image")}
    cluster.spec(enableInTreeAutoscaling=False)
    assert "image-version-mismatch" not in {rule for rule, _ in found(cluster)}


OBJECT = Field({"spec": {
    "groups": [{"groupName": "a"}, {"name": "b"}, {}], "labels": {"x/y": "z"}, "flag": True,
    "number": 3}})  # fmt: skip
SPEC = OBJECT / "spec"


def test_a_path_is_written_as_kubernetes_writes_it() -> None:
    first, second, third = (SPEC / "groups").items()
    assert (first / "template" / "spec").path == "spec.groups[0].template.spec"
    assert (SPEC / "labels").key("x/y").path == "spec.labels[x/y]"
    assert OBJECT.path == ""
    assert (first / "x").identity == ("spec", "groups", "a", "x")
    assert (second / "x").identity == ("spec", "groups", "b", "x")
    assert (third / "x").identity == ("spec", "groups", 2, "x")


def test_what_is_not_of_the_asked_type_reads_as_absent() -> None:
    assert ((SPEC / "flag").flag, (SPEC / "flag").number, (SPEC / "flag").text) == (True, None, "")
    assert ((SPEC / "number").number, (SPEC / "number").flag) == (3, False)
    assert ((SPEC / "groups").map, (SPEC / "labels").strings, list((SPEC / "labels").items())) == (
        {}, {"x/y": "z"}, [])  # fmt: skip
    assert not (SPEC / "number" / "deeper" / "still").given


def test_fields_sort_by_index_and_not_by_digit() -> None:
    holder = Field({"groups": [{}] * 12}) / "groups"
    fields = list(holder.items())
    mixed = [*fields[6:], *fields[:6]]
    assert sorted(mixed, key=lambda field: field.position) == fields
    assert holder.position < fields[0].position < (fields[0] / "name").position < fields[1].position


@pytest.mark.parametrize(("text", "release"), [
    ("2.46.0", (2, 46, 0)), ("v2.46", (2, 46)), (" 2.46.0rc1", (2, 46, 0)), ("2", None),
    ("2.046", None), ("nightly", None), ("", None), ("3.0.0.dev0", (3, 0, 0)),
    ("9" * 5000 + ".1", None),
])  # fmt: skip
def test_versions_are_read_as_kubernetes_reads_them(text: str, release: Release | None) -> None:
    assert parse_release(text) == release


@pytest.mark.parametrize(("image", "release", "python"), [
    ("rayproject/ray:2.46.0", (2, 46, 0), ""),
    ("mirror.example:5000/a/ray-ml:2.9.0-py310-gpu", (2, 9, 0), "py310"),
    ("rayproject/ray:2.46.0.abc123-py39-cpu", (2, 46, 0), "py39"),
    ("ray-llm:2.50.1-py311-cu128", (2, 50, 1), "py311"),
    ("rayproject/ray:nightly", None, ""), ("rayproject/ray", None, ""),
    ("rayproject/ray@sha256:00", None, ""), ("company/ray-serve-app:2.1.0", None, ""),
    ("company/array:2.1.0", None, ""), ("company/app:2.46.0", None, ""),
    ("rayproject/ray:2.46", None, ""),
])  # fmt: skip
def test_only_rays_images_tell_a_release(image: str, release: Release | None, python: str) -> None:
    assert image_release(image) == (release, python)


def test_versions_agree_in_the_numbers_that_both_have() -> None:
    assert same_release((2, 46), (2, 46, 1))
    assert not same_release((2, 46, 0), (2, 46, 1))


@pytest.mark.parametrize("room", [24, 30, 60, 119])
def test_a_path_is_shortened_in_the_middle(room: int) -> None:
    path = "spec.workerGroupSpecs[0].template.spec.containers[0].resources.limits[google.com/tpu]"
    short = shorten_path(path, room)
    assert len(short) <= room
    assert short.startswith("spec")
    assert short.endswith(path if room > len(path) else "[google.com/tpu]")
    assert ("…" in short) is (room < len(path))


@pytest.mark.parametrize("path", ["a" * 200, "spec." + "b" * 200, "[" * 200, "é" * 90, ""])
def test_any_path_can_be_shortened(path: str) -> None:
    assert len(shorten_path(path, 20)) <= 20
