"""RayServices, and second cases of rules: cases in addition to the examples."""

import pytest

from tests.harness.ray_objects import Built, a_cluster, a_job, a_service, found
from webhook.validation.rule_settings import GATES, RuleSettings

GROUP = "spec.workerGroupSpecs[0]"
OPTIONS = "spec.upgradeStrategy.clusterUpgradeOptions"
ON = RuleSettings(gates=dict.fromkeys(GATES, True))


def an_incremental_service(options: dict[str, object] | None) -> Built:
    strategy = {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": options}
    return a_service(a_cluster().autoscaled().group()).spec(upgradeStrategy=strategy)


@pytest.mark.parametrize(("changed", "path"), [
    ({"stepSizePercent": 101}, f"{OPTIONS}.stepSizePercent"),
    ({"stepSizePercent": -1}, f"{OPTIONS}.stepSizePercent"),
    ({"maxSurgePercent": 101}, f"{OPTIONS}.maxSurgePercent"),
    ({"stepSizePercent": 11, "maxSurgePercent": 10}, f"{OPTIONS}.stepSizePercent"),
    ({"intervalSeconds": 0}, f"{OPTIONS}.intervalSeconds"),
    ({"intervalSeconds": None}, f"{OPTIONS}.intervalSeconds"),
    ({"gatewayClassName": ""}, f"{OPTIONS}.gatewayClassName"),
    ({"maxSurgePercent": None, "stepSizePercent": 100}, None),
])  # fmt: skip
def test_options_of_an_upgrade_are_in_range(changed: dict[str, object], path: str | None) -> None:
    options = {"stepSizePercent": 10, "maxSurgePercent": 50, "intervalSeconds": 30}
    service = an_incremental_service({**options, "gatewayClassName": "istio", **changed})
    assert {where for _, where in found(service)} == ({path} if path else set())


def test_an_incremental_upgrade_needs_options_and_is_not_checked_without_its_gate() -> None:
    assert found(an_incremental_service(None)) == {("incremental-options-missing", OPTIONS)}
    off = RuleSettings(gates={"RayServiceIncrementalUpgrade": False})
    assert found(an_incremental_service(None), off) == set()


@pytest.mark.parametrize(("built", "finding"), [
    (a_job().spec(ttlSecondsAfterFinished=-1), ("job-ttl-invalid", "spec.ttlSecondsAfterFinished")),
    (a_job().spec(deletionStrategy={}), ("deletion-incomplete", "spec.deletionStrategy")),
    (a_cluster().spec(historyServerOptions={}),
     ("history-collector-missing", "spec.historyServerOptions.collectorOptions")),
    (a_cluster().head_container(image="ray:2.55.1-py310").group()
     .container(image="ray:2.55.1-py311"),
     ("image-version-mismatch", f"{GROUP}.template.spec.containers[0].image")),
    (a_cluster().spec(rayVersion="2.56").autoscaled(version="v1").head_container(image="x")
     .group(priority=1), ("priority-unsupported", f"{GROUP}.priority")),
])  # fmt: skip
def test_the_other_side_of_a_rule(built: Built, finding: tuple[str, str]) -> None:
    assert found(built, ON) == {finding}


def test_both_forms_of_a_deletion_strategy_at_once_are_refused() -> None:
    rules = [{"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "ttlSeconds": 1}}]
    strategy = {
        "onSuccess": {"policy": "DeleteSelf"},
        "onFailure": {"policy": "DeleteSelf"},
        "deletionRules": rules,
    }
    assert found(a_job().spec(deletionStrategy=strategy)) == {
        ("deletion-mixed", "spec.deletionStrategy.deletionRules")
    }
