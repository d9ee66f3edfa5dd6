"""RayClusters with scheduling groups, and the created groups as the tests read them."""

from collections.abc import Mapping

from tests.e2e import needs
from tests.e2e.api import POD_GROUPS, WORKLOADS, Api, Json, Objects
from tests.e2e.installation import WITH_CONTROLLER
from tests.e2e.rays import example
from tests.e2e.versions import NEWEST, chosen
from webhook.api import names
from webhook.groups.annotations import WORKER_GROUP

COMPONENTS = (WITH_CONTROLLER, "schedulingGroups.publish=true")
"""What lets the controller keep PodGroups, and makes it do so."""

OPTED_OUT = {names.ANNOTATION_SCHEDULING_GROUP: None}


def by(granularity: str) -> dict[str, str]:
    return {names.ANNOTATION_SCHEDULING_GROUP: granularity}


GROUPED = by(WORKER_GROUP)
"""The annotation that asks for a PodGroup of each worker group."""


def grouped(
    name: str, groups: Mapping[str, tuple[int, int]], annotations: Mapping[str, str]
) -> Json:
    cluster = example("cpu-autoscaled")
    cluster["metadata"] |= {"name": name, "annotations": dict(annotations)}
    spec = cluster["spec"]
    del spec["enableInTreeAutoscaling"], spec["autoscalerOptions"]
    (pattern, *_) = spec["workerGroupSpecs"]
    counted = {"minReplicas": 0, "maxReplicas": 50}
    spec["workerGroupSpecs"] = [
        {**pattern, **counted, "groupName": group, "replicas": replicas, "numOfHosts": hosts}
        for group, (replicas, hosts) in groups.items()
    ]
    return cluster


def alive(objects: Objects) -> Objects:
    """Those that are not being deleted: a PodGroup stays so until its pods are gone."""
    return [each for each in objects if "deletionTimestamp" not in each["metadata"]]


def pod_groups(api: Api, namespace: str) -> Objects:
    return alive(api.list(POD_GROUPS, namespace))


def workloads(api: Api, namespace: str) -> Objects:
    return alive(api.list(WORKLOADS, namespace))


def counts(api: Api, namespace: str) -> dict[str, int]:
    """How many pods each PodGroup of a namespace waits for: 0 where it waits for none."""
    return {
        each["metadata"]["name"]: min_count(each["spec"]["schedulingPolicy"])
        for each in pod_groups(api, namespace)
    }


def counted(desired: int, made_with: int) -> int:
    """How many pods a PodGroup waits for that was made with another count: v1alpha2 keeps that."""
    return desired if needs.MUTABLE_MIN_COUNT.is_met else made_with


def unused() -> set[tuple[str, str, str]]:
    """The rights that may not have been used: `serve` sweeps Leases a minute after it starts, the
    controller changes no counts of v1alpha2, and KubeRay creates the headless Services here.
    """
    sweep = {("coordination.k8s.io", "leases", verb) for verb in ("list", "delete")}
    sweep |= {("", "services", "create")}
    if needs.MUTABLE_MIN_COUNT.is_met:
        return sweep
    patched = {("scheduling.k8s.io", each, "patch") for each in ("podgroups", "workloads")}
    return sweep | patched


def workload_of(found: Json) -> str | None:
    spec = found["spec"]
    template = spec.get("podGroupTemplateRef") or {}
    reference = spec.get("workloadRef") or template.get("workload") or {}
    name: str | None = reference.get("workloadName")
    return name


def discovered() -> set[int]:
    """The codes of asking for the version of PodGroups: the newest one is asked for first."""
    return {200} if chosen().pod_groups == NEWEST.pod_groups else {200, 404}


def min_count(policy: Json) -> int:
    if "basic" in policy:
        return 0
    found: int = policy["gang"]["minCount"]
    return found


def uids(objects: Objects) -> dict[str, str]:
    """Objects by name: one that was made again has another uid."""
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in objects}


def group_of(pod: Json) -> str | None:
    found: str | None = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
    return found


def owner_of(found: Json) -> tuple[str, str]:
    (owner,) = (each for each in found["metadata"]["ownerReferences"] if each.get("controller"))
    return owner["kind"], owner["uid"]
