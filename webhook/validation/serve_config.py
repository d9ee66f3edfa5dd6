"""Rules of `serveConfigV2` of RayServices: values that Ray's REST API refuses or ignores.

KubeRay sends the text to Ray when the cluster runs, and retries without end; no earlier check
exists. Ray's schema: python/ray/serve/schema.py (`ServeDeploySchema`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from webhook.api.formats import list_choices, nearest, shorten
from webhook.api.release import Release, format_release
from webhook.api.review import DUPLICATE, FORBIDDEN, NOT_SUPPORTED, REQUIRED
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import Service
from webhook.validation.runtime_env import (
    runtime_env_keys,
    runtime_env_values,
    unknown_key,
)

_DEFAULT_NAME: Final = "default"
_ROOT: Final = "/"
_PORT_MAX: Final = 65535
_PERCENT_MAX: Final = 100


class _Type(Struct, frozen=True):
    """A type of a value: its name in messages, and predicates of all releases of Ray, and of those
    since `STRICT_SINCE`. Before, Ray accepted numbers as strings, and other numbers as integers.
    """

    called: str
    accepts: Callable[[Any], bool]
    strictly: Callable[[Any], bool] = lambda _: True


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None


def _numbers(called: str, accepts: Callable[[float], bool] = lambda _: True) -> _Type:
    return _Type(called, lambda value: (number := _number(value)) is not None and accepts(number))


def _integers(called: str, accepts: Callable[[float], bool]) -> _Type:
    numbers = _numbers(called, accepts)
    return _Type(called, numbers.accepts, lambda value: (_number(value) or 0.0).is_integer())


def _of(called: str, *types: type) -> _Type:
    return _Type(called, lambda value: isinstance(value, types))


def _one_of(*words: str) -> _Type:
    return _Type(list_choices(words), lambda value: value in words)


_ANY: Final = _Type("a value", lambda _: True)
_TEXT: Final = _Type(
    "a string, in quotes",
    lambda value: isinstance(value, str | int | float),
    lambda value: isinstance(value, str),
)
_MAP: Final = _of("a map", dict)
_LIST: Final = _of("a list", list)
_FLAGS: Final = ("true", "false", "yes", "no", "on", "off", "y", "n", "t", "f", "1", "0")
_FLAG: Final = _Type("true or false", lambda value: str(value).lower() in _FLAGS)
_LOG_LEVELS: Final = {
    "CRITICAL": 50, "FATAL": 50, "ERROR": 40, "WARN": 30, "WARNING": 30, "INFO": 20, "DEBUG": 10,
    "NOTSET": 0,
}  # fmt: skip


def _is_log_level(value: object) -> bool:
    if isinstance(value, str) and value in _LOG_LEVELS:
        return True
    return not isinstance(value, bool) and _number(value) in _LOG_LEVELS.values()


_LOG_LEVEL: Final = _Type(
    "DEBUG, INFO, WARNING, ERROR or CRITICAL",
    _is_log_level,
    lambda value: not isinstance(value, str) or value in _LOG_LEVELS,
)
_NUMBER: Final = _numbers("a number")
_POSITIVE: Final = _numbers("a number above 0", lambda number: number > 0)
_COUNT: Final = _integers("an integer of 1 or more", lambda number: number >= 1)
_NOT_NEGATIVE: Final = _numbers("a number of 0 or more", lambda number: number >= 0)
_QUEUE: Final = _Type(
    "-1 or an integer of 1 or more",
    lambda value: type(value) is int and (value == -1 or value >= 1),
)
_PORT: Final = _integers(f"a port from 0 to {_PORT_MAX}", lambda number: 0 <= number <= _PORT_MAX)
_PERCENT: Final = _numbers("a percentage from 0 to 100", lambda number: 0 <= number <= _PERCENT_MAX)
_PER_NODE: Final = _integers("an integer from 1 to 100", lambda number: 1 <= number <= _PERCENT_MAX)
_REPLICAS: Final = _Type(
    "an integer of 1 or more, or auto",
    lambda value: value == "auto" or _COUNT.accepts(value),
    lambda value: value == "auto" or isinstance(value, int | float),
)
STRICT_SINCE: Final = (2, 55)

Fields = Mapping[str, _Type]


def _fields(*rows: tuple[_Type, str]) -> Fields:
    """Return the types of fields, from rows of a type and the fields that have it."""
    return {name: kind for kind, listed in rows for name in listed.split()}


TOP: Final = _fields(
    (_one_of("EveryNode", "HeadOnly", "Disabled"), "proxy_location"),
    (_MAP, "http_options grpc_options logging_config"),
    (_PERCENT, "target_capacity"),
    (_ANY, "applications controller_options tracing_config"),
)
HTTP: Final = _fields(
    (_TEXT, "host root_path ssl_keyfile ssl_certfile ssl_keyfile_password ssl_ca_certs"),
    (_PORT, "port"),
    (_NUMBER, "request_timeout_s keep_alive_timeout_s"),
)
GRPC: Final = _fields(
    (_PORT, "port"),
    (_LIST, "grpc_servicer_functions"),
    (_NUMBER, "request_timeout_s"),
    (_ANY, "enable_reflection"),
)
LOGGING: Final = _fields(
    (_one_of("TEXT", "JSON"), "encoding"),
    (_LOG_LEVEL, "log_level"),
    (_TEXT, "logs_dir"),
    (_FLAG, "enable_access_log"),
    (_LIST, "additional_log_standard_attrs"),
)
APPLICATION: Final = _fields(
    (_TEXT, "name route_prefix"),
    (_MAP, "runtime_env autoscaling_policy args logging_config"),
    (_LIST, "deployments"),
    (_FLAG, "external_scaler_enabled"),
    (_ANY, "import_path host port"),
)
DEPLOYMENT: Final = _fields(
    (_TEXT, "name route_prefix placement_group_strategy"),
    (_REPLICAS, "num_replicas"),
    (_COUNT, "max_ongoing_requests max_concurrent_queries"),
    (_QUEUE, "max_queued_requests"),
    (_PER_NODE, "max_replicas_per_node"),
    (_NOT_NEGATIVE, "graceful_shutdown_wait_loop_s graceful_shutdown_timeout_s"),
    (_POSITIVE, "health_check_period_s health_check_timeout_s"),
    (_MAP, "user_config autoscaling_config ray_actor_options logging_config"),
    (_MAP, "request_router_config gang_scheduling_config"),
    (_LIST, "placement_group_bundles placement_group_bundle_label_selector"),
    (_LIST, "placement_group_fallback_strategy"),
    (_ANY, "deployment_actors rolling_update_percentage max_surge_percent backpressure_config"),
)
ACTOR: Final = _fields(
    (_MAP, "runtime_env resources label_selector"),
    (_NOT_NEGATIVE, "num_cpus num_gpus memory object_store_memory"),
    (_TEXT, "accelerator_type"),
    (_LIST, "fallback_strategy"),
)
AUTOSCALING: Final = _fields(
    (_numbers("a number of 1 or more", lambda number: number >= 1), "max_replicas"),
    (_NOT_NEGATIVE, "min_replicas initial_replicas target_num_ongoing_requests_per_replica"),
    (_NOT_NEGATIVE, "downscale_delay_s downscale_to_zero_delay_s upscale_delay_s"),
    (_POSITIVE, "target_ongoing_requests metrics_interval_s look_back_period_s"),
    (_POSITIVE, "smoothing_factor upscale_smoothing_factor downscale_smoothing_factor"),
    (_POSITIVE, "upscaling_factor downscaling_factor"),
    (_TEXT, "aggregation_function"),
    (_ANY, "policy _policy"),
)

_NEW_IN: Final[Mapping[Release, str]] = {
    (2, 44): "additional_log_standard_attrs",
    (2, 48): "request_router_config",
    (2, 50): "ssl_keyfile ssl_certfile ssl_keyfile_password ssl_ca_certs policy "
    "downscale_to_zero_delay_s",
    (2, 51): "autoscaling_policy aggregation_function",
    (2, 53): "external_scaler_enabled",
    (2, 54): "placement_group_bundle_label_selector label_selector fallback_strategy",
    (2, 55): "gang_scheduling_config deployment_actors",
    (2, 56): "controller_options rolling_update_percentage",
    (2, 58): "backpressure_config",
    (2, 59): "tracing_config",
    (2, 60): "enable_reflection max_surge_percent",
}
SINCE: Final = {name: release for release, listed in _NEW_IN.items() for name in listed.split()}
"""The first release of Ray that has a key; other keys are older than the rules."""
REPLACED: Final = {
    "max_concurrent_queries": "max_ongoing_requests",
    "target_num_ongoing_requests_per_replica": "target_ongoing_requests",
}
"""Keys that were removed from Ray in `_REPLACED_SINCE`, with their replacements."""
_REPLACED_SINCE: Final = (2, 40)


def serve_config_unreadable(service: Service) -> Iterator[Fault]:
    """A Serve configuration that is not a YAML map with a list of applications.

    KubeRay parses the configuration when the cluster runs, cannot send it to Ray, and retries
    without end; the service never becomes ready. The format with a single application and
    `import_path` at the top level belongs to an API that Ray has removed. A duplicate key is a
    warning: the last value is used.

    https://docs.ray.io/en/latest/serve/production-guide/config.html
    """
    field, read = _field(service), service.config
    if read.problem:
        yield Fault(field, read.problem)
    if read.twice:
        yield Fault(field, read.twice, DUPLICATE, doubtful=True)
    if read.value is None:
        return
    applications = service.configuration / "applications"
    if not applications.given and "import_path" in read.value:
        message = "Ray needs a list of applications: put it below applications, as - import_path"
        yield Fault(applications, message, REQUIRED)
    elif applications.given and type(applications.value) is not list:
        problem = f"applications is {_format_value(applications.value)}"
        yield Fault(applications, f"{problem}: write a list, each entry with an import_path")


def serve_config_missing(service: Service) -> Iterator[Fault]:
    """A RayService without applications: without a Serve configuration, with an empty one, or with
    an empty list.

    KubeRay sends an empty configuration, which Ray refuses, again and again, and without an
    application the service never becomes ready.

    https://docs.ray.io/en/latest/serve/production-guide/config.html
    """
    field, read = _field(service), service.config
    empty = not field.given or (field.value == field.text and not field.text.strip())
    if not empty and read.value is not None and "import_path" not in read.value:
        empty = read.value.get("applications") in (None, [])
    if empty:
        message = "no application: write applications, each with an import_path such as module:app"
        yield Fault(field, message, REQUIRED)


def serve_application_invalid(service: Service) -> Iterator[Fault]:
    """An application that Ray refuses: without an `import_path` of the form `module:name`, or with
    the name or route prefix of another application.

    Ray refuses the whole configuration, and KubeRay sends it again without end. Applications
    without a name are called `default`, and without a route prefix they are served at `/`; before
    Ray 2.7 the prefix of the deployment was used, so two of these are a warning.

    https://docs.ray.io/en/latest/serve/production-guide/config.html
    """
    names: dict[str, Field] = {}
    routes: dict[str, Field] = {}
    for application in service.applications():
        if type(application.value) is not dict:
            problem = f"{_format_value(application.value)} is not an application"
            yield Fault(application, f"{problem}: write a map with an import_path")
            continue
        yield from _import_path(application / "import_path")
        name, route = application / "name", application / "route_prefix"
        if name.value == "":
            yield Fault(name, "the name is empty: write one, or remove it")
        application_name = str(name.value) if name.given else _DEFAULT_NAME
        if application_name in names:
            problem = f"another application has the name {shorten(application_name)}"
            yield Fault(name, f"{problem}: rename one of the two", DUPLICATE)
        names[application_name] = name
        if problem := _route(route.text):
            yield Fault(route, problem)
        prefix = _ROOT if "route_prefix" not in application.map else route.value
        if isinstance(prefix, str) and prefix in routes:
            doubtful = not route.given or not routes[prefix].given
            message = (
                f"another application is served at {shorten(prefix)}: set another route_prefix"
            )
            yield Fault(route, message, DUPLICATE, doubtful=doubtful)
        if isinstance(prefix, str):
            routes.setdefault(prefix, route)
        for key in ("host", "port"):
            if (application / key).given:
                message = f"{key} is set in an application: move it to http_options.{key}"
                yield Fault(application / key, message, FORBIDDEN)


def serve_value_invalid(service: Service) -> Iterator[Fault]:
    """A value of a Serve configuration that Ray refuses: of another type, out of range, or together
    with a value that it excludes.

    Ray refuses the whole configuration, and KubeRay sends it again without end. A `working_dir` and
    `py_modules` must be remote URIs: the head cannot read your local files. Since 2.55 Ray refuses
    a number where it needs a string, and a string where it needs `num_replicas`.

    https://docs.ray.io/en/latest/serve/api/index.html#serve-rest-api
    """
    release = service.cluster.release
    strict = release is None or release >= STRICT_SINCE
    for field, types_by_name in _maps(service):
        for name, value_type in types_by_name.items():
            value = field / name
            if not value.given:
                continue
            accepted = value_type.accepts(value.value)
            if not accepted or (strict and not value_type.strictly(value.value)):
                message = f"{_format_value(value.value)}: write {value_type.called}"
                yield Fault(value, message, doubtful=accepted and release is None)
    for deployment in service.deployments():
        if type(deployment.value) is not dict:
            message = (
                f"{_format_value(deployment.value)} is not a deployment: write a map with its name"
            )
            yield Fault(deployment, message)
            continue
        if not (deployment / "name").given:
            message = "the name is not set: write the name of a deployment"
            yield Fault(deployment / "name", message, REQUIRED)
        yield from _exclusions(deployment)
        yield from _bounds(deployment / "autoscaling_config")
    for env in service.runtime_envs():
        yield from runtime_env_values(env)
        yield from _addresses(env)


def serve_key_unknown(service: Service) -> Iterator[Fault]:
    """A key of a Serve configuration that Ray, or this release of Ray, does not have.

    Ray ignores the key, so an option that is misspelt, newer than the release or already replaced
    has no effect; in `logging_config` Ray refuses it. At the top level, where users define YAML
    anchors, only keys similar to one of Ray's are reported.

    https://docs.ray.io/en/latest/serve/api/index.html#serve-rest-api
    """
    if type((service.configuration / "applications").value) is not list:
        return
    release = service.cluster.release
    for field, types_by_name in _maps(service):
        names = frozenset(types_by_name)
        for key in field.map:
            if key not in names and (types_by_name is not TOP or nearest(key, names)):
                yield unknown_key(field, key, names)
            elif key in names and release and (message := _of_another_release(key, release)):
                yield Fault(field / key, message, NOT_SUPPORTED)
    for env in service.runtime_envs():
        yield from runtime_env_keys(env)


def _of_another_release(key: str, release: Release) -> str:
    """Return a message that a release of Ray does not have a key, or an empty string."""
    newest, since = REPLACED.get(key), SINCE.get(key, release)
    advice = f"use Ray {format_release(since)}, or remove it" if release < since else ""
    if newest and release >= _REPLACED_SINCE:
        advice = f"write {newest}"
    return f"Ray {format_release(release)} has no {key} and ignores it: {advice}" if advice else ""


def _field(service: Service) -> Field:
    return service.field / "serveConfigV2"


def _maps(service: Service) -> Iterator[tuple[Field, Fields]]:
    """Yield each map of the configuration with its allowed keys."""
    config = service.configuration
    yield config, TOP
    yield config / "http_options", HTTP
    yield config / "grpc_options", GRPC
    for application in service.applications():
        yield application, APPLICATION
    for deployment in service.deployments():
        yield deployment, DEPLOYMENT
        yield deployment / "ray_actor_options", ACTOR
        yield deployment / "autoscaling_config", AUTOSCALING
    for field in (config, *service.applications(), *service.deployments()):
        yield field / "logging_config", LOGGING


def _import_path(field: Field) -> Iterator[Fault]:
    """Yield problems of the import path of an application. Ray also accepts `module.name`."""
    path, advice = field.text, "write module:name of the application"
    if not field.given:
        yield Fault(field, f"import_path is not set: {advice}", REQUIRED)
    elif not path:
        yield Fault(field, f"{_format_value(field.value)}: {advice}")
    if not path:
        return
    module, _, name = path.rpartition(":" if ":" in path else ".")
    broken = ":" in module or module.startswith(".") or any(map(str.isspace, path)) or "/" in path
    if not module or not name or broken:
        yield Fault(field, f"{shorten(path)!r}: write module:name, such as app.main:deployment")
    elif (file := path.partition(":")[0]).endswith(".py"):
        module_path = f"{file.removesuffix('.py')}:{name if ':' in path else 'app'}"
        yield Fault(field, f"a module, and not a file: write {shorten(module_path)}", doubtful=True)


def _route(text: str) -> str:
    advice = ""
    if text and not text.startswith(_ROOT):
        advice = "begin it with /"
    elif text != _ROOT and text.endswith(_ROOT):
        advice = "remove the / at its end"
    elif "{" in text or "}" in text:
        advice = "write it without braces"
    return f"{shorten(text)!r}: {advice}" if advice else ""


def _exclusions(deployment: Field) -> Iterator[Fault]:
    replicas, autoscaling = deployment / "num_replicas", deployment / "autoscaling_config"
    per_node, bundles = deployment / "max_replicas_per_node", deployment / "placement_group_bundles"
    fixed = replicas.given and replicas.value != "auto"
    for field, beside, both in (
        (replicas, autoscaling, fixed and autoscaling.size),
        (per_node, bundles, per_node.given and bundles.given),
    ):
        if both:
            message = f"{field.token} is set beside {beside.token}: remove one of the two"
            yield Fault(field, message, FORBIDDEN)


def _bounds(autoscaling: Field) -> Iterator[Fault]:
    for high, low in (
        ("max_replicas", "min_replicas"),
        ("max_replicas", "initial_replicas"),
        ("initial_replicas", "min_replicas"),
    ):
        upper, lower = (_number((autoscaling / name).value) for name in (high, low))
        if upper is not None and lower is not None and upper < lower:
            message = f"{upper:g}, below {low} {lower:g}: raise it, or lower the other"
            yield Fault(autoscaling / high, message)
            return


def _addresses(env: Field) -> Iterator[Fault]:
    advice = "write the address of an archive, such as s3://bucket/a.zip"
    for field in (env / "working_dir", *(env / "py_modules").items()):
        if field.text and "://" not in field.text:
            yield Fault(field, f"{shorten(field.text)!r}: {advice}")


def _format_value(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    if isinstance(value, dict | list):
        return "a map" if isinstance(value, dict) else "a list"
    return repr(shorten(value)) if isinstance(value, str) else shorten(str(value))
