"""Behaviour of kube-apiserver 1.37 for pod groups, ComputeDomains and events, as observed."""

import copy
from typing import Any, Final

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


def check_change(version: str, old: Object, new: Object) -> None:
    """Raise Refusal for a change of what is immutable."""
    if version == "v1beta1":
        for template in [new["spec"], *new["spec"].get("podGroupTemplates", [])]:
            _check(template["schedulingPolicy"]) if "schedulingPolicy" in template else None
        if _without_counts(new["spec"]) == _without_counts(old["spec"]):
            return
    if new["spec"] != old["spec"]:
        raise Refusal(422)


def check_event(old: Object, new: Object) -> None:
    """Raise Refusal for an event that is invalid, or differs from the old one in more than the
    series.

    https://github.com/kubernetes/kubernetes/blob/master/pkg/apis/core/validation/events.go
    """
    needed = ("eventTime", "reportingController", "reportingInstance", "action", "reason")
    series = new.get("series", {"count": 2, "lastObservedTime": "now"})
    valid = (
        all(new.get(each) for each in needed)
        and len(new["note"]) <= 1024
        and new["regarding"]["namespace"] == new["metadata"]["namespace"]
        and series["count"] >= 2
        and series["lastObservedTime"]
        and (not old or {**new, "series": 0} == {**old, "series": 0})
    )
    if not valid:
        raise Refusal(422)


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
