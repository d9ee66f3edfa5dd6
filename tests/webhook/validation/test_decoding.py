"""Values out of range of KubeRay's Go types are refused in any object."""

import pytest

from tests.harness.ray_objects import (
    Json,
    a_cluster,
    a_cron_job,
    a_job,
    a_service,
    undecodable,
    with_amount,
)
from webhook.validation.finding import DENY, WARN
from webhook.validation.ruleset import check, check_update

HUGE = 3_000_000_000
RULE = "value-not-decodable"


def with_port(port: object) -> Json:
    probe = {"httpGet": {"path": "/", "port": port}}
    return a_cluster().group().container(readinessProbe=probe).build()


def found(value: Json) -> list[str]:
    return [each.path for each in check(value["kind"], value) if each.rule == RULE]


@pytest.mark.parametrize(("port", "fine"), [
    *((port, False) for port in (HUGE, -HUGE, 2**31, float(HUGE), 1e22)),
    *((port, True) for port in (8080, 0, -1, 2**31 - 1, -(2**31), "http", "3000000000", None)),
])  # fmt: skip
def test_a_port_has_32_bits(port: object, fine: bool) -> None:
    path = "spec.workerGroupSpecs[0].template.spec.containers[0].readinessProbe.httpGet.port"
    assert found(with_port(port)) == ([] if fine else [path])


@pytest.mark.parametrize("bits", [32, 64])
def test_integers_have_the_range_of_their_type(bits: int) -> None:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    for number, wrong in ((low - 1, True), (low, False), (high, False), (high + 1, True)):
        field = "priority" if bits == 32 else "terminationGracePeriodSeconds"
        cluster = a_cluster().group().pod(**{field: number})
        assert undecodable("RayCluster", cluster.build()) is wrong


@pytest.mark.parametrize(("value", "path"), [
    (a_job().spec(backoffLimit=HUGE).build(), "spec.backoffLimit"),
    (a_service().spec(serveService={"spec": {"ports": [{"port": 1, "targetPort": HUGE}]}}).build(),
     "spec.serveService.spec.ports[0].targetPort"),
    (a_cron_job().spec(jobTemplate={"backoffLimit": HUGE}).build(),
     "spec.jobTemplate.backoffLimit"),
    (a_cluster().spec(
        headGroupSpec={"headService": {"spec": {"ports": [{"nodePort": HUGE}]}}}).build(),
     "spec.headGroupSpec.headService.spec.ports[0].nodePort"),
])  # fmt: skip
def test_numbers_of_every_kind_are_known(value: Json, path: str) -> None:
    assert found(value) == [path]


@pytest.mark.parametrize(("amount", "wrong"), [
    ("1e1.5", True), ("1E-.5", True), ("1e3", False), ("1E", False), ("2Ei", False),
    ("500m", False), ("1e-999999999", True), ("1e50000000", True), ("1E+100", True),
    ("1e99", False), ("1e-99", False), ("1e0000000000000000003", False),
    (10**12, False), (1.5, False), ("five", False), ("1Gie", False), ("e", False),
])  # fmt: skip
def test_a_quantity_has_a_whole_exponent_of_at_most_two_digits(amount: object, wrong: bool) -> None:
    assert undecodable("RayCluster", with_amount(amount)) is wrong


def test_an_update_that_only_scales_is_refused_when_the_number_is_too_large() -> None:
    old, new = a_cluster().group(replicas=1).build(), a_cluster().group(replicas=HUGE).build()
    (finding,) = check_update("RayCluster", old, new)
    assert (finding.rule, finding.level) == (RULE, DENY)
    assert check_update("RayCluster", new, new)[0].level == WARN
    assert check_update("RayCluster", new, old) == []


def test_an_object_that_is_being_deleted_cannot_become_undecodable() -> None:
    old, new, bare = with_port(1), with_port(HUGE), with_port(HUGE)
    for each in (old, new, bare):
        each["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    bare["metadata"]["annotations"] = {"a": "b"}
    assert [each.rule for each in check_update("RayCluster", old, new)] == [RULE]
    assert [each.level for each in check_update("RayCluster", new, bare)] == [WARN]


def test_a_finalizer_may_go_from_an_undecodable_object_that_is_being_deleted() -> None:
    old, new = with_port(HUGE), with_port(HUGE)
    for each, finalizers in ((old, ["a/b"]), (new, [])):
        each["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}
    assert check_update("RayCluster", old, new) == []
    new["metadata"]["labels"] = {"also": "changed"}
    assert [each.level for each in check_update("RayCluster", old, new)] == [WARN]


def test_garbage_is_no_number() -> None:
    assert not undecodable("RayJob", [1, {"spec": [3]}])
    assert not undecodable("RayJob", {"spec": {"backoffLimit": {"a": HUGE}}})


@pytest.mark.parametrize("hosts", [HUGE, -HUGE])
def test_a_field_with_another_denial_has_no_second_one(hosts: int) -> None:
    value = a_cluster().group(hosts=hosts).build()
    rules = {each.rule for each in check("RayCluster", value)}
    assert "num-of-hosts-invalid" in rules
    assert RULE not in rules


def test_a_value_that_was_wrong_before_and_cannot_be_decoded_now_is_refused() -> None:
    old, new = (a_cluster().group(hosts=hosts).build() for hosts in (0, HUGE))
    assert (RULE, DENY) in {
        (each.rule, each.level) for each in check_update("RayCluster", old, new)
    }
