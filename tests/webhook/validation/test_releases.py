"""The rules apply to the running release of KubeRay, and only warn where it is unknown."""

import pytest

from tests.harness.ray_objects import Built, a_cluster, a_cron_job, a_service, found
from webhook.validation.crd import releases
from webhook.validation.finding import DENY, WARN
from webhook.validation.rule_settings import (
    DEFAULT_GATES,
    GATES,
    RuleSettings,
    default_gates,
    parse_kuberay,
)
from webhook.validation.ruleset import check

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


@pytest.mark.parametrize(("text", "release"), [("", None), ("1.6", (1, 6)), ("v1.6.2", (1, 6))])
def test_a_release_is_read(text: str, release: tuple[int, int] | None) -> None:
    assert parse_kuberay(text) == release


def test_the_autoscaler_has_the_release_of_the_head() -> None:
    cluster = a_cluster().group().autoscaled(image="rayproject/ray:2.40.0")
    assert found(cluster) == {("image-version-mismatch", "spec.autoscalerOptions.image")}
    cluster.spec(enableInTreeAutoscaling=False)
    assert "image-version-mismatch" not in {rule for rule, _ in found(cluster)}
