"""Serve configurations that Ray accepts, refuses, or ignores in part."""

from textwrap import dedent

import pytest

from tests.harness.ray_objects import a_cluster, a_service, findings, found
from webhook.validation.finding import DENY, WARN
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
    (with_deployment("num_replicas: 0"), VALUE, f"{DEPLOYMENT}.num_replicas"),
    (with_deployment("num_replicas: two"), VALUE, f"{DEPLOYMENT}.num_replicas"),
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
    (with_deployment("max_queued_requests: '2'"), VALUE, f"{DEPLOYMENT}.max_queued_requests"),
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
])  # fmt: skip
def test_a_key_of_a_newer_release_of_ray_is_a_warning(minor: int, text: str) -> None:
    for release, count in ((minor - 1, 1), (minor, 0)):
        cluster = a_cluster().head_container(image=f"rayproject/ray:2.{release}.0")
        assert (
            len(findings(a_service(cluster.spec(rayVersion=None)).spec(serveConfigV2=text), KEY))
            == count
        )
