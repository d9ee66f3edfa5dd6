"""The ports of the head by which KubeRay reaches the dashboard and Ray Serve."""

import pytest

from tests.harness.ray_objects import (
    ClusterBuilder,
    Json,
    a_cluster,
    a_cron_job,
    a_job,
    a_service,
    findings,
    found,
)
from webhook.validation.rule_settings import RuleSettings

RULE = "head-port-unnamed"
PORTS = "headGroupSpec.template.spec.containers[0].ports"
SERVING = "ray.io/enable-serve-service"


def ports(**numbers: int) -> list[Json]:
    return [{"name": name, "containerPort": each} for name, each in numbers.items()]


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
    (["dashboard", "serve"], None, True), (["dashboard"], None, False),
    (["dashboard", "serve-grpc"], None, True), (["dashboard", "serve-grpc"], (1, 6), True),
    (["dashboard", "serve-grpc"], (1, 5), False), (["dashboard", "server"], None, False),
])  # fmt: skip
def test_a_service_has_a_port(
    names: list[str], kuberay: tuple[int, int] | None, fine: bool
) -> None:
    settings = RuleSettings(kuberay=kuberay)
    cluster = with_ports(ports(**{name: 8265 if name == "dashboard" else 8000 for name in names}))
    expected = set() if fine else {(RULE, f"spec.rayClusterConfig.{PORTS}")}
    assert found(a_service(cluster), settings) == expected
    bare = set() if fine else {(RULE, f"spec.{PORTS}")}
    assert found(cluster, settings) == set()
    assert found(cluster.annotated(SERVING, "true"), settings) == bare


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


APPLICATIONS = "applications: [{import_path: 'app:main'}]"
ON_9000 = f"{{http_options: {{port: 9000}}, {APPLICATIONS}}}"


@pytest.mark.parametrize(("options", "head", "worker", "groups"), [
    ("port: 9000", 9000, 9000, []), ("port: 9000", 9000, None, ["workerGroupSpecs[0]"]),
    ("port: 9000", 8000, 9000, ["headGroupSpec"]), ("host: 0.0.0.0", None, None, []),
    ("host: 0.0.0.0", 9000, None, ["headGroupSpec"]), ("port: '9000'", None, None, []),
    ("port: 1", 8000, 1, ["headGroupSpec"]), ("port: 0", 8000, 1, []),
])  # fmt: skip
def test_serve_listens_where_kuberay_checks(
    options: str, head: int | None, worker: int | None, groups: list[str]
) -> None:
    cluster = a_cluster().group()
    if head is not None:
        cluster.head_container(ports=ports(dashboard=8265, serve=head))
    if worker is not None:
        cluster.container(ports=ports(serve=worker))
    text = f"{{http_options: {{{options}}}, {APPLICATIONS}}}"
    listed = findings(a_service(cluster).spec(serveConfigV2=text), "serve-port-mismatch")
    assert [each.path.split(".")[2] for each in listed] == groups


@pytest.mark.parametrize(("cluster", "text"), [
    (a_cluster(),
     "listens on 9000, but KubeRay checks 8000: set http_options.port, or name port 9000 serve"),
    (a_cluster().head_container(ports=ports(dashboard=8265)),
     "add containerPort 9000 with this name"),
], ids=["default ports", "no port for Serve"])  # fmt: skip
def test_the_port_of_serve_is_changed_or_added(cluster: ClusterBuilder, text: str) -> None:
    (finding,) = findings(a_service(cluster).spec(serveConfigV2=ON_9000))
    assert finding.message.endswith(text)


def test_a_port_that_kuberay_does_not_check_is_not_reported() -> None:
    cluster = a_cluster().head_container(ports=ports(dashboard=8265, serve=9000))
    cluster.group().container(readinessProbe={"tcpSocket": {"port": 9000}})
    service = a_service(cluster).spec(serveConfigV2=ON_9000)
    assert found(service) == set()


@pytest.mark.parametrize(("config", "exclude", "path"), [
    ("proxy_location: Disabled", False, "proxy_location"),
    ("proxy_location: HeadOnly", True, "proxy_location"), ("proxy_location: HeadOnly", False, ""),
    ("proxy_location: EveryNode", True, ""), ("http_options: {host: 127.0.0.1}", False, "host"),
    ("http_options: {host: '::'}", False, ""),
])  # fmt: skip
def test_a_service_reaches_the_proxies(config: str, path: str, exclude: bool) -> None:
    service = a_service().spec(
        serveConfigV2=f"{{{config}, {APPLICATIONS}}}", excludeHeadPodFromServeSvc=exclude
    )
    listed = findings(service, "serve-unreachable")
    assert [each.path.rpartition(".")[2] for each in listed] == ([path] if path else [])
