"""Behaviour of kube-apiserver 1.37 for Workloads, PodGroups and ComputeDomains, as observed."""

import copy
from typing import Any, Final

import jsonpatch

Object = dict[str, Any]

PODGROUPS: Final = "podgroups"
WORKLOADS: Final = "workloads"
COMPUTE_DOMAINS: Final = "computedomains"

_REFERENCE: Final = {
    "v1": "workloadRef",
    "v1beta1": "workloadRef",
    "v1alpha2": "podGroupTemplateRef",
}
_TEMPLATES_MAX: Final = 8


class Refusal(Exception):  # noqa: N818 - named for what happened
    """A request that is answered with a status other than success."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


def admitted(version: str, resource: str, body: Object, default_priority: str) -> Object:
    """Return an object as it is stored, with the default priority. Raises Refusal."""
    stored = copy.deepcopy(body)
    if not body["apiVersion"].endswith(f"/{version}"):
        raise Refusal(400)
    spec = stored["spec"]
    if resource == COMPUTE_DOMAINS:
        return stored
    if resource == PODGROUPS:
        for name in set(_REFERENCE.values()) - {_REFERENCE[version]}:
            spec.pop(name, None)
        _check(spec["schedulingPolicy"])
        if default_priority:
            spec.setdefault("priorityClassName", default_priority)
        return stored
    templates = spec["podGroupTemplates"]
    for template in templates:
        _check(template["schedulingPolicy"])
    priorities = {template.get("priorityClassName") for template in templates}
    names = {template["name"] for template in templates}
    if (
        not 1 <= len(templates) <= _TEMPLATES_MAX
        or len(priorities) > 1
        or len(names) < len(templates)
    ):
        raise Refusal(422)
    return stored


def patched(version: str, old: Object, operations: list[Object]) -> Object:
    """Return an object after a patch. Raises Refusal for what is immutable."""
    new: Object = jsonpatch.apply_patch(copy.deepcopy(old), operations)
    if new["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
        raise Refusal(409)
    if version == "v1beta1":
        for template in [new["spec"], *new["spec"].get("podGroupTemplates", [])]:
            _check(template["schedulingPolicy"]) if "schedulingPolicy" in template else None
        if _without_counts(new["spec"]) == _without_counts(old["spec"]):
            return new
    if new["spec"] != old["spec"]:
        raise Refusal(422)
    return new


def check_preconditions(old: Object, options: Object) -> None:
    """Raise Refusal when an object is another than the one to delete."""
    meta = old["metadata"]
    wanted = options["preconditions"]
    if (wanted["uid"], wanted["resourceVersion"]) != (meta["uid"], meta["resourceVersion"]):
        raise Refusal(409)


def _check(policy: Object) -> None:
    if len(policy) != 1 or ("gang" in policy and policy["gang"]["minCount"] < 1):
        raise Refusal(422)


def _without_counts(spec: Object) -> Object:
    bare = copy.deepcopy(spec)
    for template in [bare, *bare.get("podGroupTemplates", [])]:
        template.get("schedulingPolicy", {}).get("gang", {}).pop("minCount", None)
    return bare
