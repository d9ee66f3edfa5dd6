"""The ports of the head by which KubeRay reaches the dashboard and Ray Serve."""

import pytest

from tests.harness.ray_objects import (
    ClusterBuilder,
    Json,
    a_cluster,
    a_cron_job,
    a_job,
    a_service,
    found,
)
from webhook.validation.rule_settings import RuleSettings

RULE = "head-port-unnamed"
PORTS = "headGroupSpec.template.spec.containers[0].ports"
SERVING = "ray.io/enable-serve-service"


def ports(**numbers: int) -> list[Json]:
    return [
        {"name": name.replace("_", "-"), "containerPort": each} for name, each in numbers.items()
    ]


def with_ports(listed: list[Json]) -> ClusterBuilder:
    return a_cluster().head_container(ports=listed).group()


@pytest.mark.parametrize("listed", [
    [{"containerPort": 8265}], ports(gcs=6379, dash=8265), ports(serve=8000),
])  # fmt: skip
def test_a_job_without_a_port_named_dashboard(listed: list[Json]) -> None:
    job = a_job(with_ports(listed))
    assert found(job) == {(RULE, f"spec.rayClusterSpec.{PORTS}")}
    assert found(a_cron_job(job)) == {(RULE, f"spec.jobTemplate.rayClusterSpec.{PORTS}")}
    assert found(with_ports(listed)) == set()


def test_ports_of_the_head_service_count_for_the_dashboard() -> None:
    service = {"spec": {"ports": [{"name": "dashboard", "port": 8265}]}}
    cluster = with_ports([{"containerPort": 6379}]).head(headService=service)
    assert found(a_job(cluster)) == set()
    assert found(a_service(cluster)) == {(RULE, f"spec.rayClusterConfig.{PORTS}")}


@pytest.mark.parametrize(("names", "kuberay", "fine"), [
    (["dashboard", "serve"], None, True),
    (["dashboard"], None, False),
    (["dashboard", "serve-grpc"], None, True),
    (["dashboard", "serve-grpc"], (1, 6), True),
    (["dashboard", "serve-grpc"], (1, 5), False),
    (["dashboard", "server"], None, False),
])  # fmt: skip
def test_a_service_needs_a_port_named_serve(
    names: list[str], kuberay: tuple[int, int] | None, *, fine: bool
) -> None:
    settings = RuleSettings(kuberay=kuberay)
    cluster = with_ports([{"name": name, "containerPort": 8265} for name in names])
    expected = set() if fine else {(RULE, f"spec.rayClusterConfig.{PORTS}")}
    assert found(a_service(cluster), settings) == expected
    alone = set() if fine else {(RULE, f"spec.{PORTS}")}
    assert found(cluster, settings) == set()
    assert found(cluster.annotation(SERVING, "true"), settings) == alone


def test_a_serve_service_with_ports_needs_none() -> None:
    cluster = with_ports(ports(dashboard=8265))
    own = {"spec": {"ports": [{"name": "http", "port": 8000}]}}
    wrong = {(RULE, f"spec.rayClusterConfig.{PORTS}")}
    assert found(a_service(cluster).spec(serveService=own)) == set()
    assert found(a_service(cluster).spec(serveService={"metadata": {"name": "s"}})) == wrong


@pytest.mark.parametrize("value", ["false", "False", '"false"', "0"])
def test_a_dashboard_that_is_off(value: str) -> None:
    cluster = a_cluster().head(rayStartParams={"include-dashboard": value}).group()
    path = "headGroupSpec.rayStartParams[include-dashboard]"
    assert found(cluster) == set()
    assert found(a_job(cluster)) == {("head-dashboard-off", f"spec.rayClusterSpec.{path}")}
    assert found(a_service(cluster)) == {("head-dashboard-off", f"spec.rayClusterConfig.{path}")}


@pytest.mark.parametrize(("params", "listed", "at"), [
    ({"dashboard-port": "9000"}, [], "rayStartParams[dashboard-port]"),
    ({"dashboard-port": "9000"}, ports(dashboard=8265), "rayStartParams[dashboard-port]"),
    ({}, ports(dashboard=9000), "template.spec.containers[0].ports[0].containerPort"),
    ({"dashboard-port": "9000"}, ports(dashboard=9000), ""),
    ({"dashboard-port": "$PORT"}, ports(dashboard=9000), ""),
    ({"dashboard-port": "8265"}, [], ""),
])  # fmt: skip
def test_the_port_of_the_dashboard(params: dict[str, str], listed: list[Json], at: str) -> None:
    cluster = with_ports(listed).head(rayStartParams=params)
    rule = "head-dashboard-port-mismatch"
    expected = {(rule, f"spec.rayClusterSpec.headGroupSpec.{at}")} if at else set()
    assert found(a_job(cluster)) == expected
    assert found(cluster) == set()
