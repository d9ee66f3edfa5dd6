"""Serve configurations that Ray accepts, refuses, or ignores in part, and the ports of the head."""

from textwrap import dedent

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
from webhook.validation.finding import DENY, WARN
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.ruleset import check_update

CONFIG = "spec.serveConfigV2"
APPS = f"{CONFIG}.applications"


def of(text: str) -> str:
    return f"applications:\n- import_path: fruit.deployment_graph\n{text}"


def with_deployment(text: str) -> str:
    lines = "".join(f"    {line}\n" for line in dedent(text).strip().splitlines())
    return of(f"  deployments:\n  - name: Mango\n{lines}")


UNREADABLE = "serve-config-unreadable"
MISSING = "serve-config-missing"
APPLICATION = "serve-application-invalid"
VALUE = "serve-value-invalid"
KEY = "serve-key-unknown"
FIRST = f"{APPS}[0]"
IMPORT = f"{FIRST}.import_path"
DEPLOYMENT = f"{FIRST}.deployments[0]"
ACTOR = f"{DEPLOYMENT}.ray_actor_options"
SCALING = f"{DEPLOYMENT}.autoscaling_config"
ENV = f"{FIRST}.runtime_env"
TWO = "applications:\n- {{{}, import_path: 'a:b'}}\n- {{{}, import_path: 'a:b'}}"

REFUSED = (
    ("a: [", UNREADABLE, CONFIG),
    ("applications:\n\t- import_path: a:b", UNREADABLE, CONFIG),
    ("applications: [] []", UNREADABLE, CONFIG),
    ("applications: *apps", UNREADABLE, CONFIG),
    ("- import_path: a:b", UNREADABLE, CONFIG),
    ("fruit:app", UNREADABLE, CONFIG),
    ("applications: {{ .Values.apps }}", UNREADABLE, CONFIG),
    ("{}", MISSING, CONFIG),
    ("# later", MISSING, CONFIG),
    ("http_options: {port: 8000}", MISSING, CONFIG),
    ("", MISSING, CONFIG),
    (" \n", MISSING, CONFIG),
    (None, MISSING, CONFIG),
    ("applications:\n  import_path: a:b", UNREADABLE, APPS),
    ("applications:", MISSING, CONFIG),
    ("applications: [a:b]", APPLICATION, FIRST),
    ("applications: [{name: a}]", APPLICATION, IMPORT),
    ("applications: [{import_path: 'src/fruit.py:app'}]", APPLICATION, IMPORT),
    ("applications: [{import_path: 'a:b:c'}]", APPLICATION, IMPORT),
    ("applications: [{import_path: 'a.b:'}]", APPLICATION, IMPORT),
    (TWO.format("name: a, route_prefix: /a", "name: a, route_prefix: /b"), APPLICATION,
     f"{APPS}[1].name"),
    (TWO.format("name: a, route_prefix: /x", "name: b, route_prefix: /x"), APPLICATION,
     f"{APPS}[1].route_prefix"),
    (of("  route_prefix: fruit"), APPLICATION, f"{FIRST}.route_prefix"),
    (of("  route_prefix: /fruit/"), APPLICATION, f"{FIRST}.route_prefix"),
    (of("  route_prefix: '/{fruit}'"), APPLICATION, f"{FIRST}.route_prefix"),
    ("applications: [{name: '', import_path: 'a:b'}]", APPLICATION, f"{FIRST}.name"),
    (of("  deployments: [Mango, {name: Kiwi}]"), VALUE,
     f"{FIRST}.deployments[0]"),
    (of("  port: 8000"), APPLICATION, f"{FIRST}.port"),
    *((with_deployment(f"{field}: {value}"), VALUE, f"{DEPLOYMENT}.{field}") for field, value in (
        ("num_replicas", 0), ("num_replicas", "two"), ("max_queued_requests", "'2'"),
        ("health_check_period_s", 0))),
    (with_deployment("num_replicas: 2\nautoscaling_config: {max_replicas: 4}"), VALUE,
     f"{DEPLOYMENT}.num_replicas"),
    (with_deployment("autoscaling_config: {min_replicas: 4, max_replicas: 2}"), VALUE,
     f"{SCALING}.max_replicas"),
    (of("  deployments: [{num_replicas: 2}]"), VALUE, f"{DEPLOYMENT}.name"),
    (of("  deployments: {Mango: {num_replicas: 2}}"), VALUE, f"{FIRST}.deployments"),
    (with_deployment("ray_actor_options: {num_cpus: one}"), VALUE, f"{ACTOR}.num_cpus"),
    (with_deployment("ray_actor_options: {memory: 4Gi}"), VALUE, f"{ACTOR}.memory"),
    (of("  runtime_env: {env_vars: {WORKERS: 4}}"), VALUE, f"{ENV}.env_vars[WORKERS]"),
    (of("  runtime_env: {pip: [torch], conda: env.yaml}"), VALUE, f"{ENV}.conda"),
    *((f"proxy_location: {location}\n{of('')}", VALUE, f"{CONFIG}.proxy_location")
      for location in ("Everywhere", "NoServer", "everynode")),
    (of("  logging_config: {enable_access_log: 2}"), VALUE,
     f"{FIRST}.logging_config.enable_access_log"),
    ("applications: [{import_path: 5}]", APPLICATION, IMPORT),
    (f"http_options: {{port: 80000}}\n{of('')}", VALUE, f"{CONFIG}.http_options.port"),
)  # fmt: skip
WARNED = (
    (f"http_options: {{}}\nhttp_options: {{}}\n{of('')}", UNREADABLE, CONFIG),
    ("applications: [{import_path: 'fruit.py:app'}]", APPLICATION, IMPORT),
    ("applications: [{import_path: fruit.py}]", APPLICATION, IMPORT),
    (TWO.format("name: a", "name: b"), APPLICATION, f"{APPS}[1].route_prefix"),
    (of("  import_pth: a:b"), KEY, f"{FIRST}.import_pth"),
    (of("  runtime_env: {env_var: {A: b}}"), KEY, f"{ENV}.env_var"),
    (f"http_option: {{}}\n{of('')}", KEY, f"{CONFIG}.http_option"),
    (with_deployment("autoscaling_config: {max_replica: 2}"), KEY, f"{SCALING}.max_replica"),
)

USABLE = {
    "json": '{"applications": [{"import_path": "a:b", "route_prefix": "/"}]}',
    "a dot": "applications: [{import_path: app.main.deployment}]",
    "a module with a hyphen": "applications: [{import_path: 'my-app:deployment'}]",
    "comments and a document mark": f"# fruit\n---\n{of('')}",
    "an anchor and a merge": (
        "base: &base\n  runtime_env: {pip: [torch]}\n"
        "applications:\n- <<: *base\n  import_path: a:b\n"
    ),
    "two names and prefixes": TWO.format("name: a, route_prefix: /a", "name: b, route_prefix: /b"),
    "no routes": TWO.format("name: a, route_prefix: null", "name: b, route_prefix: null"),
    "a prefix of a prefix": TWO.format("name: a, route_prefix: /", "name: b, route_prefix: /a/b"),
    "modules in a bucket": of("  runtime_env: {py_modules: ['s3://bucket/m.zip']}"),
    "variables in quotes": of("  runtime_env: {env_vars: {WORKERS: '4', EMPTY: ''}}"),
    "pip as a map": of("  runtime_env: {pip: {packages: [torch], pip_check: false}}"),
    "an image": of("  runtime_env: {image_uri: 'registry.example/app:1'}"),
    "arguments of a builder": of("  args: {llm_configs: [{model_id: m, tensor: 2}]}"),
    "a deployment with its name alone": with_deployment(""),
    "replicas, whole": with_deployment("num_replicas: 2.0"),
    "auto": with_deployment("num_replicas: auto\nautoscaling_config: {max_replicas: 4}"),
    "autoscaling from zero": with_deployment(
        "autoscaling_config: {min_replicas: 0, initial_replicas: 1, max_replicas: 4,"
        " target_ongoing_requests: 2.5, upscale_delay_s: 3}"
    ),
    "autoscaling with old names": with_deployment("autoscaling_config: {smoothing_factor: 0.5}"),
    "an option of this release": with_deployment("deployment_actors: []"),
    "part of a CPU": with_deployment("ray_actor_options: {num_cpus: 0.1, num_gpus: 0}"),
    "memory in bytes": with_deployment("ray_actor_options: {memory: 1073741824}"),
    "custom resources": with_deployment("ray_actor_options: {resources: {TPU: 4}}"),
    "a placement group": with_deployment(
        "placement_group_bundles: [{CPU: 1, GPU: 1}]\nplacement_group_strategy: STRICT_PACK"
    ),
    "a queue without a limit": with_deployment("max_queued_requests: -1"),
    "a configuration of the user": with_deployment("user_config: {price: 3, nested: {a: [1]}}"),
    "health checks": with_deployment("health_check_period_s: 10\nhealth_check_timeout_s: 30.5"),
    "logs as json": with_deployment("logging_config: {encoding: JSON, log_level: DEBUG}"),
    "proxies and ports": (
        "proxy_location: EveryNode\nhttp_options: {host: 0.0.0.0, port: 8000,"
        f" request_timeout_s: 30}}\ngrpc_options: {{port: 9000}}\n{of('')}"
    ),
    "a capacity": f"target_capacity: 50\n{of('')}",
    "values of null": with_deployment("num_replicas: null\nuser_config: null"),
    "an application that an autoscaler elsewhere scales": of("  external_scaler_enabled: true"),
}


@pytest.mark.parametrize(("text", "rule", "path", "level"), [
    *((*row, DENY) for row in REFUSED), *((*row, WARN) for row in WARNED),
])  # fmt: skip
def test_what_ray_refuses_or_ignores_is_found(text: str, rule: str, path: str, level: str) -> None:
    listed = findings(a_service().spec(serveConfigV2=text))
    assert [(each.rule, each.path, each.level) for each in listed] == [(rule, path, level)]


STRICT = (
    (of("  name: 5"), f"{FIRST}.name"), (of("  route_prefix: 1.5"), f"{FIRST}.route_prefix"),
    (of("  logging_config: {log_level: '10'}"), f"{FIRST}.logging_config.log_level"),
    (with_deployment("num_replicas: '2'"), f"{DEPLOYMENT}.num_replicas"),
    (with_deployment("max_ongoing_requests: 2.5"), f"{DEPLOYMENT}.max_ongoing_requests"),
    (with_deployment("ray_actor_options: {accelerator_type: 5}"), f"{ACTOR}.accelerator_type"),
    (f"http_options: {{host: 5, port: 8000.5}}\n{of('')}", f"{CONFIG}.http_options.host"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "path"), STRICT)
@pytest.mark.parametrize(("ray", "level"), [("2.55.1", DENY), ("2.54.0", ""), ("own", WARN)])
def test_other_types_are_refused_since_2_55(text: str, path: str, ray: str, level: str) -> None:
    cluster = a_cluster().group().head_container(image=f"rayproject/ray:{ray}")
    listed = findings(a_service(cluster.spec(rayVersion=None)).spec(serveConfigV2=text), VALUE)
    assert {(each.path, each.level) for each in listed if each.path == path} == (
        {(path, level)} if level else set()
    )


@pytest.mark.parametrize(("level", "fine"), [
    ("DEBUG", True), ("WARN", True), ("FATAL", True), ("NOTSET", True), ("10", True),
    ("20.0", True), ("[INFO]", False), ("debug", False),
    ("Info", False), ("TRACE", False), ("15", False), ("true", False),
])  # fmt: skip
def test_levels_of_logs_are_those_of_python(level: str, fine: bool) -> None:
    text = with_deployment(f"logging_config: {{log_level: {level}}}")
    path = f"{DEPLOYMENT}.logging_config.log_level"
    assert found(a_service().spec(serveConfigV2=text)) == (set() if fine else {(VALUE, path)})


@pytest.mark.parametrize("text", USABLE.values(), ids=USABLE)
def test_a_usable_configuration_has_no_finding(text: str) -> None:
    cluster = a_cluster().group(resources={"CPU": "4", "GPU": "1", "TPU": "4"})
    assert found(a_service(cluster).spec(serveConfigV2=text)) == set()


@pytest.mark.parametrize(("key", "release", "text"), [
    ("max_surge_percent", "2.55.1", "use Ray 2.60, or remove it"),
    ("max_surge_percent", "2.60.0", ""),
    ("rolling_update_percentage", "2.55.1", "use Ray 2.56, or remove it"),
    ("request_router_config", "2.47.1", "use Ray 2.48, or remove it"),
    ("request_router_config", "2.48.0", ""),
    ("external_scaler_enabled", "2.52.0", "use Ray 2.53, or remove it"),
    ("external_scaler_enabled", "2.53.0", ""),
    ("max_concurrent_queries", "2.55.1", "write max_ongoing_requests"),
    ("max_concurrent_queries", "2.9.3", ""), ("max_ongoing_requests", "2.9.3", ""),
])  # fmt: skip
def test_a_key_that_this_release_lacks_is_a_warning(key: str, release: str, text: str) -> None:
    value = {"request_router_config": "{}"}.get(key, "1")
    config = with_deployment(f"{key}: {value}")
    if key == "external_scaler_enabled":
        config = of(f"  {key}: true")
    cluster = a_cluster().head_container(image=f"rayproject/ray:{release}")
    listed = findings(a_service(cluster).spec(serveConfigV2=config), KEY)
    assert [(each.level, each.message.endswith(text)) for each in listed] == (
        [("warn", True)] if text else []
    )


def test_another_edit_of_an_unusable_configuration_is_no_denial() -> None:
    text = "applications: [{name: a}]"
    old = a_service().spec(serveConfigV2=text).build()
    new = a_service().spec(serveConfigV2=f"{text}\n").annotated("team", "blue").build()
    assert [each.level for each in check_update("RayService", old, new)] == ["warn"]


@pytest.mark.parametrize("text", [
    "a: [" * 150, "&a [" * 100, "x: &x\n- *x", "applications: " + "[" * 300,
    "a: &a [x]\n" + "applications: [" + "*a, " * 5000 + "]", "\x00", "a: \ud800",
    "applications:\n- &a {import_path: 'a:b', deployments: &d [" + "{name: x}, " * 2000 + "]}\n"
    + "- *a\n" * 2000,
])  # fmt: skip
def test_a_hostile_configuration_takes_bounded_work(text: str) -> None:
    assert len(found(a_service().spec(serveConfigV2=text))) <= 400


def test_a_configuration_that_is_too_long_to_read_is_left_to_ray() -> None:
    assert found(a_service().spec(serveConfigV2="x" * 65537)) == set()


@pytest.mark.parametrize(("minor", "text"), [
    (44, of("  logging_config: {additional_log_standard_attrs: [name]}")),
    (48, with_deployment("request_router_config: {}")),
    (50, with_deployment("autoscaling_config: {downscale_to_zero_delay_s: 1}")),
    (51, with_deployment("autoscaling_config: {aggregation_function: mean}")),
    *((minor, with_deployment(f"{key}: {{}}")) for minor, key in (
        (54, "placement_group_bundle_label_selector"), (55, "gang_scheduling_config"),
        (56, "rolling_update_percentage"), (58, "backpressure_config"))),
])  # fmt: skip
def test_a_key_of_a_newer_release_of_ray_is_a_warning(minor: int, text: str) -> None:
    for release, count in ((minor - 1, 1), (minor, 0)):
        cluster = a_cluster().head_container(image=f"rayproject/ray:2.{release}.0")
        assert (
            len(findings(a_service(cluster.spec(rayVersion=None)).spec(serveConfigV2=text), KEY))
            == count
        )


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
