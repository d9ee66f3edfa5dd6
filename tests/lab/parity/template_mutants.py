"""Broken copies of pod templates in Ray objects: the same ones for the same seed."""

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import yaml

from tests.lab.parity.build import HERE
from tests.lab.parity.mutants import LARGE, Json, Way, at, walk

NUMBERS = (-1, 0, 1, 2, 3, 80, 8080, 65535, 65536, 70000, 100, 101, 511, 512, 2**31 - 1)
QUANTITIES = (
    "0", "1", "-1", "4", "500m", "0.5", "1.5", "100Gi", "2Mi", "3Mi", "1m", "0.0001", "1e3", "100T",
)  # fmt: skip
TEXTS = (
    "", "x", "Upper", "under_score", "-dash", "dash-", "a.b", "a/b", "/a", "../a", "a/../b",
    "a" * 64, "a" * 254, "$NAME", "${NAME}", " space ", "Always", "never", "true", "1", "default",
    "Exists", "In", "metadata.name", "spec.foo", "limits.cpu", "é",
)  # fmt: skip
NAMES = (
    "cpu", "memory", "memori", "nvidia.com/gpu", "aws.amazon.com/neuron", "google.com/tpu",
    "hugepages-2Mi", "hugepages-1Gi", "rdma/hca", "gpu", "storage", "ephemeral-storage",
    "kubernetes.io/x", "requests.nvidia.com/gpu", "a/b/c", "_x",
)  # fmt: skip
PARTS: dict[str, list[Any]] = yaml.safe_load((HERE / "parts.yaml").read_text())
"""Values that people get wrong, and some that are right, by field."""

_TEMPLATES = ("template", "submitterPodTemplate", "autoscalerOptions")
_POD = (
    "restartPolicy", "dnsPolicy", "tolerations", "affinity", "topologySpreadConstraints",
    "nodeSelector", "serviceAccountName", "priorityClassName", "runtimeClassName", "hostname",
    "subdomain", "securityContext", "hostNetwork", "hostPID", "hostUsers",
    "shareProcessNamespace", "activeDeadlineSeconds", "terminationGracePeriodSeconds",
    "preemptionPolicy", "schedulingGates", "hostAliases", "dnsConfig", "volumes", "os",
    "resourceClaims", "overhead",
)  # fmt: skip
_OPTIONS = (
    "env", "envFrom", "resources", "volumeMounts", "securityContext", "imagePullPolicy", "image",
)  # fmt: skip
_CONTAINER = (
    "imagePullPolicy", "securityContext", "volumeMounts", "volumeDevices", "env", "envFrom",
    "ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle",
    "terminationMessagePolicy", "resizePolicy", "image", "name", "restartPolicy",
)  # fmt: skip


def template_mutants(given: list[Json], seed: int) -> Iterator[Json]:
    random = Random(seed)  # noqa: S311 - the same ones each time
    small = [value for value in given if len(json.dumps(value)) < LARGE and _places(value)]
    while True:
        value = copy.deepcopy(random.choice(small))
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            _break(value, random)
        yield value


def _break(value: Json, random: Random) -> None:
    place = random.choice(_places(value))
    template = at(value, place)
    draw = random.random()
    if draw < 0.45:
        _add(template, place, random)
    else:
        _change(template, random, random.random())


def _places(value: Json) -> list[Way]:
    return [
        way for way, item in walk(value) if way and way[-1] in _TEMPLATES and isinstance(item, dict)
    ]


def _add(template: Json, place: Way, random: Random) -> None:
    """Write one of the parts into the template, a container of it, or its metadata."""
    holder, names = _holder(template, place, random)
    name = random.choice(names)
    part = copy.deepcopy(random.choice(PARTS[name]))
    old = holder.get(name)
    if isinstance(part, list) and isinstance(old, list) and random.random() < 0.5:
        part = [*old, *part]
    holder[name] = part


def _holder(template: Json, place: Way, random: Random) -> tuple[Json, tuple[str, ...]]:
    if place[-1] == "autoscalerOptions":
        return template, _OPTIONS
    spec = template.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    listed = [
        each
        for kind in ("containers", "initContainers")
        if isinstance(spec.get(kind), list)
        for each in spec[kind]
        if isinstance(each, dict)
    ]
    draw = random.random()
    if draw < 0.1:
        metadata = template.setdefault("metadata", {})
        return (metadata if isinstance(metadata, dict) else {}), ("labels", "annotations", "name")
    return (random.choice(listed), _CONTAINER) if draw < 0.6 and listed else (spec, _POD)


def _change(template: Json, random: Random, draw: float) -> None:
    ways = [way for way, _ in walk(template) if way]
    if not ways:
        return
    way = random.choice(ways)
    holder, name = at(template, way[:-1]), way[-1]
    item = holder[name]
    if draw < 0.2:
        del holder[name]
    elif draw < 0.3 and isinstance(holder, list):
        holder.append(copy.deepcopy(item))
    elif (
        draw < 0.4 and isinstance(holder, dict) and way[-2:-1] and way[-2] in ("limits", "requests")
    ):
        holder[random.choice(NAMES)] = random.choice(QUANTITIES)
    elif draw < 0.45:
        holder[name] = copy.deepcopy(at(template, random.choice(ways)))
    else:
        holder[name] = _other(item, way, random)


def _other(item: Any, way: Way, random: Random) -> Any:  # noqa: ANN401 - JSON
    if isinstance(item, bool):
        return not item
    if "limits" in way[:-1] or "requests" in way[:-1]:
        return random.choice(QUANTITIES)
    if isinstance(item, int | float):
        return random.choice(NUMBERS)
    if isinstance(item, str):
        near = (
            item.lower(), item.upper(), item + " ", f"${item}", item[:-1], item + "_", item.title(),
        )  # fmt: skip
        return random.choice((*TEXTS, *near))
    if isinstance(item, list):
        return [*item, *copy.deepcopy(item[:1])] if random.random() < 0.6 else []
    return {}
