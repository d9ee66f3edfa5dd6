"""Quota and limits as the API server applies them, reimplemented: pods are created one by one."""

import math
from collections.abc import Callable, Iterable, Iterator
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


class _Container(NamedTuple):
    """The kind is main, setup or sidecar."""

    requests: Amounts
    limits: Amounts
    kind: str


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
        containers = [*_containers(pod["spec"])]
        for item in self._items("Container"):
            default = _amounts(item.get("max")) | _amounts(item.get("default"))
            request = _amounts(item.get("min")) | default | _amounts(item.get("defaultRequest"))
            for container in containers:
                _set_missing(container.limits, default)
                _set_missing(container.requests, request)
        requests = _total(containers, lambda each: each.requests)
        limits = _total(containers, lambda each: each.limits)
        if refusal := self._limited(containers, requests, limits):
            return refusal
        return self._counted(pod, containers, requests, limits)

    def _items(self, kind: str) -> Iterator[Json]:
        for each in self.ranges:
            for item in each["spec"]["limits"]:
                if item["type"] == kind:
                    yield {**item, "name": each["metadata"]["name"]}

    def _limited(
        self, containers: list[_Container], requests: Amounts, limits: Amounts
    ) -> Refusal | None:
        for asked, most, _ in containers:
            if over := [name for name in asked if name in most and asked[name] > most[name]]:
                return Refusal("", frozenset(over))
        checked = [
            (item, asked, most)
            for item in self._items("Container")
            for asked, most, _ in containers
        ]
        checked += [(item, requests, limits) for item in self._items("Pod")]
        for item, asked, most in checked:
            tops, lows = _amounts(item.get("max")), _amounts(item.get("min"))
            ratios = _amounts(item.get("maxLimitRequestRatio"))
            wrong = {
                name
                for name, top in tops.items()
                if name not in most or most[name] > top or asked.get(name, 0) > top
            } | {
                name
                for name, low in lows.items()
                if name not in asked or asked[name] < low or most.get(name, low) < low
            }
            wrong |= {
                name
                for name, ratio in ratios.items()
                if not asked.get(name) or not most.get(name) or most[name] / asked[name] > ratio
            }
            if wrong:
                return Refusal(item["name"], frozenset(wrong))
        return None

    def _counted(
        self, pod: Json, containers: list[_Container], requests: Amounts, limits: Amounts
    ) -> Refusal | None:
        usage = {"pods": Fraction(1), "count/pods": Fraction(1), **_usage(requests, limits)}
        counting = [quota for quota in self.quotas if _in_scopes(quota, pod, containers)]
        for quota in counting:
            compute = {
                name
                for name in _hard(quota)
                if name.removeprefix("requests.").removeprefix("limits.") in ("cpu", "memory")
            }
            for asked, most, _ in containers:
                if unset := compute - _usage(asked, most).keys():
                    return Refusal(quota["metadata"]["name"], frozenset(unset))
        for quota in counting:
            used = self.used[quota["metadata"]["name"]]
            over = {
                name
                for name, hard in _hard(quota).items()
                if usage.get(name) and used.get(name, 0) + usage[name] > hard
            }
            if over:
                return Refusal(quota["metadata"]["name"], frozenset(over))
        for quota in counting:
            used = self.used[quota["metadata"]["name"]]
            for name, amount in usage.items():
                used[name] = used.get(name, Fraction()) + amount
        return None


def _containers(spec: Json) -> Iterator[_Container]:
    for container in spec["containers"]:
        yield _Container(*_resources(container), "main")
    for container in spec.get("initContainers") or []:
        lasting = container.get("restartPolicy") == "Always"
        yield _Container(*_resources(container), "sidecar" if lasting else "setup")


def _resources(container: Json) -> tuple[Amounts, Amounts]:
    resources = container.get("resources", {})
    limits = _amounts(resources.get("limits"))
    return limits | _amounts(resources.get("requests")), limits


def _set_missing(amounts: Amounts, others: Amounts) -> None:
    for name, amount in others.items():
        amounts.setdefault(name, amount)


def _total(containers: list[_Container], amounts_of: Callable[[_Container], Amounts]) -> Amounts:
    """Return the most that a pod has at any time: while an init container runs, or after all."""
    moments: list[list[Amounts]] = []
    lasting: list[Amounts] = []
    for container in containers:
        if container.kind == "sidecar":
            lasting.append(amounts_of(container))
            moments.append([*lasting])
        elif container.kind == "setup":
            moments.append([*lasting, amounts_of(container)])
    moments.append([*lasting, *(amounts_of(each) for each in containers if each.kind == "main")])
    return {
        name: max(
            sum((each.get(name, Fraction()) for each in moment), Fraction()) for moment in moments
        )
        for container in containers
        for name in amounts_of(container)
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
    every = [amounts for asked, most, _ in containers for amounts in (asked, most)]
    effort = any(amounts.get(name) for amounts in every for name in ("cpu", "memory"))
    terminating = pod["spec"].get("activeDeadlineSeconds") is not None
    scopes = {
        "Terminating": terminating,
        "NotTerminating": not terminating,
        "NotBestEffort": effort,
    }
    for term in (spec.get("scopeSelector") or {}).get("matchExpressions", []):
        values = term.get("values", [])
        chosen = {
            "Exists": bool(named), "DoesNotExist": not named, "In": named != "" and named in values,
            "NotIn": named not in values}  # fmt: skip
        if not chosen[term["operator"]]:
            return False
    return all(scopes[scope] for scope in spec.get("scopes", []))


def _hard(quota: Json) -> Amounts:
    return _amounts(quota.get("status", {}).get("hard") or quota["spec"]["hard"])


def _amounts(value: Json | None) -> Amounts:
    return {
        name: Fraction(math.ceil(Fraction(parse_quantity(amount)) * 1000), 1000)
        for name, amount in (value or {}).items()
    }
