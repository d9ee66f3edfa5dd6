"""The examples of the rules: short overlays in YAML on a valid object of their kind."""

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field, json

from tests.harness.ray_objects import Built, Json, a_cluster, a_cron_job, a_job, a_service
from webhook.api.namespace_limits import read_namespaces
from webhook.manifest.yaml_values import DuplicateKey
from webhook.validation.finding import Finding
from webhook.validation.rule_settings import FixedNamespaces, RuleSettings
from webhook.validation.ruleset import check, check_file, check_update

FOLDER = Path(__file__).parent / "examples"


class Sample(Struct, forbid_unknown_fields=True):
    """One rule's example: what it finds in `fails`, at which paths; nothing in `passes`."""

    fails: Json
    at: list[str]
    passes: Json
    old: Json | None = None
    gates: dict[str, bool] = field(default_factory=dict)
    pod_groups: bool | None = None
    no_domains: str = ""
    node_labels: frozenset[str] | None = None
    kuberay: tuple[int, int] | None = None
    namespace: list[Json] = field(default_factory=list)
    """The ResourceQuotas and LimitRanges of the namespace."""
    file: bool = False
    duplicate: list[str] = field(default_factory=list)
    """The path of a key that the file of `fails` has twice."""

    @property
    def settings(self) -> RuleSettings:
        """The settings with the gates of this example, and its KubeRay and API server."""
        return RuleSettings(
            gates=self.gates, pod_groups=self.pod_groups, no_domains=self.no_domains,
            node_labels=self.node_labels, kuberay=self.kuberay,
            namespaces=FixedNamespaces(read_namespaces(self.namespace)))  # fmt: skip

    def findings(self, overlay: Json) -> list[Finding]:
        """Return what is found in `fails` or `passes`, as an update when there is an `old`."""
        value = assigned(overlay)
        if self.file:
            has_twice = self.duplicate and overlay is self.fails
            twice = [DuplicateKey((*self.duplicate,), 1)] if has_twice else []
            return check_file(value["kind"], value, self.settings, twice)
        if self.old is None:
            return check(value["kind"], value, self.settings)
        return check_update(value["kind"], assigned(self.old), value, self.settings)


def samples() -> dict[str, Sample]:
    return json.decode(_examples(), type=dict[str, Sample])


@cache
def _examples() -> bytes:
    """Return all files as JSON, which is decoded a hundred times faster than YAML."""
    every: Json = {}
    for file in sorted(FOLDER.glob("*.yaml")):
        every |= yaml.load(file.read_text(), yaml.CSafeLoader)
    return json.encode(every)


def base(kind: str) -> Json:
    """Return the valid object that an overlay stands on."""
    builders: dict[str, Callable[[], Built]] = {
        "RayJob": a_job, "RayService": a_service, "RayCronJob": a_cron_job}  # fmt: skip
    return builders[kind]().build() if kind in builders else a_cluster().group().build()


def assigned(overlay: Json) -> Json:
    """Return the whole object that an overlay stands for."""
    merged: Json = _merged(base(overlay.get("kind", "RayCluster")), overlay)
    return merged


def _merged(under: object, over: object) -> Any:  # noqa: ANN401 - JSON has values of every type
    if isinstance(under, dict) and isinstance(over, dict):
        result = copy.deepcopy(under)
        for key, value in over.items():
            if value is None:
                result.pop(key, None)
            elif key == "workerGroupSpecs":
                result[key] = _groups(under[key][0], value)
            else:
                result[key] = _merged(under.get(key), value)
        return result
    if isinstance(under, list) and isinstance(over, list):
        return [
            _merged(under[index] if index < len(under) else None, value)
            for index, value in enumerate(over)
        ]
    return copy.deepcopy(over)


def _groups(under: Json, over: Json | list[Json]) -> list[Any]:
    """Return worker groups on top of the base's one; `repeat` gives that many."""
    if isinstance(over, dict):
        each = _merged(under, {key: value for key, value in over.items() if key != "repeat"})
        return [{**each, "groupName": f"group-{index}"} for index in range(over["repeat"])]
    return [_merged(under, group) for group in over]
