"""The command with which KubeRay starts Ray in a pod.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
(`BuildPod`, `generateRayStartCommand`)
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from webhook.api import names
from webhook.api.objects import map_of
from webhook.api.quantity import read_quantity

_ULIMIT: Final = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}"
_GPU: Final = re.compile(r".*gpu|.*nvidia\.com/mig-[0-9]+g\.[0-9]+gb", re.DOTALL)
_CUSTOM: Final = {names.RESOURCE_NEURON_CORE: "neuron_cores", names.RESOURCE_TPU: "TPU"}
_PARAMS: Final = {"cpu": "num-cpus", "memory": "memory"}
_WITH_VALUE: Final = ("log-color", "include-dashboard")
"""Parameters that take `true` and `false` as values; any other is a switch."""

Object = Mapping[str, Any]


def start_commands(document: Object, name: str, namespace: str) -> Iterator[tuple[str, str]]:
    """Yield each group of a RayCluster, the head first, with what its container runs: the words of
    the template, which KubeRay puts before `ray start` without quotes, or those words alone if
    they replace the start or contain it.
    """
    spec = map_of(document.get("spec"))
    head = map_of(spec.get("headGroupSpec"))
    port = map_of(head.get("rayStartParams")).get("port") or "6379"
    service = f"{name}-head-svc.{namespace}.svc.cluster.local:{port}"
    annotations = map_of(map_of(document.get("metadata")).get("annotations"))
    groups = [(names.HEAD_GROUP, head, "")]
    groups += [
        (str(group.get("groupName")), group, service)
        for group in spec.get("workerGroupSpecs") or []
    ]
    for group_name, group, address in groups:
        template = map_of(group.get("template"))
        template_annotations = map_of(map_of(template.get("metadata")).get("annotations"))
        container = next(iter(map_of(template.get("spec")).get("containers") or []), None)
        if container is not None:
            overwrites = any(map(_overwrites, (annotations, template_annotations)))
            yield (
                group_name,
                _build_command(container, _ray_start(group, container, address), overwrites),
            )


def start_amounts(group: Object) -> dict[str, str] | None:
    """Return the parameters of `ray start` with which KubeRay starts a group, without those that
    are the same in all groups; None if its container has no `ray start` of KubeRay.
    """
    template = map_of(group.get("template"))
    containers = map_of(template.get("spec")).get("containers")
    container = map_of(next(iter(containers if isinstance(containers, list) else []), None))
    annotations = map_of(map_of(template.get("metadata")).get("annotations"))
    if _overwrites(annotations) or _starts_ray(_words(container)):
        return None
    return _with_amounts(_own_params(group), map_of(container.get("resources")))


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _overwrites(annotations: Object) -> bool:
    return str(annotations.get(names.OVERWRITE_COMMAND, "")).lower() == "true"


def _words(container: Object) -> list[str]:
    return [str(word) for name in ("command", "args") for word in _list(container.get(name))]


def _starts_ray(words: Sequence[str]) -> bool:
    return any("ray start" in word for word in words)


def _build_command(container: Object, command: str, overwrites: bool) -> str:  # noqa: FBT001
    """Return the words of a container with `ray start` after them."""
    arguments = _words(container)
    container_command = " ".join(arguments)
    if overwrites or _starts_ray(arguments):
        return container_command
    return (
        f"{container_command} && {_ULIMIT}; {command}"
        if container_command
        else f"{_ULIMIT}; {command}"
    )


def _ray_start(group: Object, container: Object, address: str) -> str:
    """Return `ray start` of a group; `address` is that of the head, empty for the head itself."""
    params = _own_params(group)
    if labels := map_of(group.get("labels")):
        params["labels"] = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    first = {"address": address} if address else {"dashboard-host": "0.0.0.0"}  # noqa: S104
    ports = {"metrics-export-port": "8080", "dashboard-agent-listen-port": "52365"}
    params = {**first, **ports, **params, "block": "true"}
    params = _with_amounts(params, map_of(container.get("resources")))
    flags = "".join(_flag(name, params[name]) for name in sorted(params))
    return f"ray start{'' if address else ' --head'}{flags}"


def _own_params(group: Object) -> dict[str, str]:
    """Return the parameters that a group itself sets, by `rayStartParams` and `resources`."""
    params = {key: str(value) for key, value in map_of(group.get("rayStartParams")).items()}
    return params | _group_resources(map_of(group.get("resources")))


def _flag(name: str, value: str) -> str:
    if value.lower() not in ("true", "false") or name in _WITH_VALUE:
        return f" --{name}={value}"
    return f" --{name}" if value.lower() == "true" else ""


def _group_resources(amounts: Object) -> dict[str, str]:
    """Return the parameters of the resources of a group."""
    params: dict[str, str] = {}
    custom: dict[str, Decimal] = {}
    for name, quantity in amounts.items():
        amount = read_quantity(quantity)
        if amount is None:
            continue
        if (param := _PARAMS.get(name.lower())) or _GPU.fullmatch(name.lower()):
            params[param or "num-gpus"] = str(math.ceil(amount))
        else:
            custom[name] = amount
    return {**params, "resources": _as_json(custom)} if custom else params


def _with_amounts(params: dict[str, str], resources: Object) -> dict[str, str]:
    """Return parameters with those that KubeRay derives from the resources of Ray's container."""
    limits, requests = map_of(resources.get("limits")), map_of(resources.get("requests"))
    amounts = {
        "num-cpus": read_quantity(limits.get("cpu")) or read_quantity(requests.get("cpu")),
        # KubeRay takes memory and devices from limits only, and CPUs from requests as well.
        "memory": read_quantity(limits.get("memory")),
    }
    derived_params = {name: str(math.ceil(amount)) for name, amount in amounts.items() if amount}
    custom = custom_resources(params.get("resources"))
    if custom is None:
        return {**derived_params, **params}  # KubeRay logs an error, and derives no accelerators
    devices = {name: read_quantity(limits[name]) or Decimal() for name in sorted(limits)}
    gpus = (amount for name, amount in devices.items() if _GPU.fullmatch(name) and amount)
    if count := next(gpus, None):
        derived_params["num-gpus"] = str(math.ceil(count))
    added = [(_CUSTOM[name], amount) for name, amount in devices.items() if name in _CUSTOM]
    # KubeRay adds only the first custom accelerator.
    added = [] if custom.keys() & _CUSTOM.values() else [pair for pair in added if pair[1]][:1]
    merged = {"resources": _as_json({**custom, **dict(added)})} if added else {}
    return {**derived_params, **params, **merged}


def custom_resources(text: str | None) -> dict[str, Decimal] | None:
    """Return the custom resources of a parameter; None if KubeRay cannot parse them."""
    try:
        value = json.loads((text or "{}").strip("'\"` "), parse_float=_amount, parse_int=_amount)
    except (ValueError, RecursionError):
        return None
    plain = isinstance(value, dict) and all(
        isinstance(amount, Decimal) for amount in value.values()
    )
    return value if plain else None


def _amount(number: str) -> Decimal:
    """Return a number as KubeRay does, which decodes it as float64. Raises ValueError if it is too
    large: as a whole number, 1e999999999 would have a billion digits.
    """
    amount = float(number)
    if math.isinf(amount):
        raise ValueError(number[:20])
    return Decimal(repr(amount))


def _as_json(amounts: Mapping[str, Decimal]) -> str:
    plain = {
        name: int(amount) if amount == amount.to_integral_value() else float(amount)
        for name, amount in sorted(amounts.items())
    }
    return f"'{json.dumps(plain, separators=(',', ':'))}'"
