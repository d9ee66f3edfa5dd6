"""Quota and limits as the API server applies them, reimplemented: pods are created one by one."""

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

from tests.harness.ray_objects import Json
from webhook.api.quantity import parse_quantity

Amounts = dict[str, Fraction]
COMPUTE = ("cpu", "memory", "ephemeral-storage")


class Refusal(NamedTuple):
    """The object that refuses a pod, and the resources that it names."""

    name: str
    resources: frozenset[str]


class Admission:
    """A namespace with ResourceQuotas and LimitRanges, in which pods are created."""

    def __init__(self, quotas: Iterable[Json], ranges: Iterable[Json]) -> None:
        self.quotas = [*quotas]
        self.ranges = [*ranges]
        self.used: dict[str, Amounts] = {
            quota["metadata"]["name"]: _amounts(quota.get("status", {}).get("used"))
            for quota in self.quotas
        }

    def create(self, pod: Json) -> Refusal | None:
        """Create a pod, or return what refuses it."""
        containers = [*_containers(pod["spec"])]
        for each in (*self._items("Container"), None):
            for _, requests, limits, _ in containers:
                if each is None:
                    _set_missing(requests, limits)
                    continue
                most, least = _amounts(each.get("max")), _amounts(each.get("min"))
                _set_missing(requests, limits)
                default = _amounts(each.get("default"))
                _set_missing(default, most)
                request = _amounts(each.get("defaultRequest"))
                _set_missing(request, default)
                _set_missing(request, least)
                _set_missing(limits, default)
                _set_missing(requests, request)
        total_requests, total_limits = (_total(containers, each) for each in (1, 2))
        if refusal := self._limited(containers, total_requests, total_limits):
            return refusal
        return self._counted(pod, containers, total_requests, total_limits)

    def _items(self, kind: str) -> Iterator[Json]:
        for each in self.ranges:
            for item in each["spec"]["limits"]:
                if item["type"] == kind:
                    yield {**item, "name": each["metadata"]["name"]}

    def _limited(
        self, containers: "list[_Container]", requests: Amounts, limits: Amounts
    ) -> Refusal | None:
        for _, asked, most, _ in containers:
            if over := [name for name in asked if name in most and asked[name] > most[name]]:
                return Refusal("", frozenset(over))
        checked = [
            (each, asked, most)
            for each in self._items("Container")
            for _, asked, most, _ in containers
        ]
        checked += [(each, requests, limits) for each in self._items("Pod")]
        for item, asked, most in checked:
            wrong = {
                *(
                    name
                    for name, top in _amounts(item.get("max")).items()
                    if name not in most or most[name] > top or asked.get(name, 0) > top
                ),
                *(
                    name
                    for name, low in _amounts(item.get("min")).items()
                    if name not in asked or asked[name] < low or most.get(name, low) < low
                ),
                *(
                    name
                    for name, ratio in _amounts(item.get("maxLimitRequestRatio")).items()
                    if not asked.get(name) or not most.get(name) or most[name] / asked[name] > ratio
                ),
            }
            if wrong:
                return Refusal(item["name"], frozenset(wrong))
        return None

    def _counted(
        self, pod: Json, containers: "list[_Container]", requests: Amounts, limits: Amounts
    ) -> Refusal | None:
        usage = {"pods": Fraction(1), "count/pods": Fraction(1), **_usage(requests, limits)}
        counting = [quota for quota in self.quotas if _in_scopes(quota, pod, containers)]
        for quota in counting:
            name, hard = quota["metadata"]["name"], _amounts(_hard(quota))
            compute = {
                each
                for each in hard
                if each.removeprefix("requests.").removeprefix("limits.") in ("cpu", "memory")
            }
            for _, asked, most, _ in containers:
                if unset := compute - _usage(asked, most).keys():
                    return Refusal(name, frozenset(unset))
        for quota in counting:
            name, hard = quota["metadata"]["name"], _amounts(_hard(quota))
            used = self.used[name]
            over = {
                each
                for each in hard
                if usage.get(each) and used.get(each, 0) + usage[each] > hard[each]
            }
            if over:
                return Refusal(name, frozenset(over))
        for quota in counting:
            used = self.used[quota["metadata"]["name"]]
            for each, amount in usage.items():
                used[each] = used.get(each, Fraction()) + amount
        return None


_Container = tuple[str, Amounts, Amounts, str]
"""The name, the requests, the limits, and the kind: main, setup or sidecar."""


def _containers(spec: Json) -> Iterator[_Container]:
    for each in spec.get("containers", []):
        yield (each["name"], *_resources(each), "main")
    for each in spec.get("initContainers") or []:
        lasting = each.get("restartPolicy") == "Always"
        yield (each["name"], *_resources(each), "sidecar" if lasting else "setup")


def _resources(container: Json) -> tuple[Amounts, Amounts]:
    resources = container.get("resources", {})
    requests, limits = (_amounts(resources.get(kind)) for kind in ("requests", "limits"))
    _set_missing(requests, limits)
    return requests, limits


def _set_missing(amounts: Amounts, others: Amounts) -> None:
    for name, amount in others.items():
        amounts.setdefault(name, amount)


def _total(containers: list[_Container], kind: int) -> Amounts:
    """Return the most that a pod has at any time: while an init container runs, or after all."""
    moments: list[list[Amounts]] = []
    lasting: list[Amounts] = []
    for container in containers:
        amounts: Amounts = container[kind]  # type: ignore[assignment] # 1 or 2
        if container[3] == "sidecar":
            lasting.append(amounts)
            moments.append([*lasting])
        elif container[3] == "setup":
            moments.append([*lasting, amounts])
    mains: list[Amounts] = [each[kind] for each in containers if each[3] == "main"]  # type: ignore[misc]
    moments.append([*lasting, *mains])
    every = {name for moment in moments for each in moment for name in each}
    return {
        name: max(
            sum((each.get(name, Fraction()) for each in moment), Fraction()) for moment in moments
        )
        for name in every
    }


def _usage(requests: Amounts, limits: Amounts) -> Amounts:
    usage = {f"limits.{name}": limits[name] for name in COMPUTE if name in limits}
    for name, amount in requests.items():
        if "/" in name:
            usage[f"requests.{name}"] = amount
        else:
            usage[name] = usage[f"requests.{name}"] = amount
    return usage


def _in_scopes(quota: Json, pod: Json, containers: list[_Container]) -> bool:
    spec, named = quota["spec"], pod["spec"].get("priorityClassName", "")
    effort = any(
        amounts.get(name)
        for _, *both, _ in containers
        for amounts in both
        for name in ("cpu", "memory")
    )
    terminating = pod["spec"].get("activeDeadlineSeconds") is not None
    cluster_config = {
        "Terminating": terminating, "NotTerminating": not terminating, "BestEffort": not effort,
        "NotBestEffort": effort}  # fmt: skip
    for term in (spec.get("scopeSelector") or {}).get("matchExpressions", []):
        values = term.get("values", [])
        chosen = {
            "Exists": bool(named), "DoesNotExist": not named, "In": named != "" and named in values,
            "NotIn": named not in values}  # fmt: skip
        holds = (
            chosen[term["operator"]]
            if term["scopeName"] == "PriorityClass"
            else cluster_config[term["scopeName"]]
        )
        if not holds:
            return False
    return all(cluster_config[scope] for scope in spec.get("scopes", []))


def _hard(quota: Json) -> Json:
    hard: Json = quota.get("status", {}).get("hard") or quota["spec"]["hard"]
    return hard


def _amounts(value: Json | None) -> Amounts:
    return {
        name: Fraction(math.ceil(Fraction(parse_quantity(amount)) * 1000), 1000)
        for name, amount in (value or {}).items()
    }
