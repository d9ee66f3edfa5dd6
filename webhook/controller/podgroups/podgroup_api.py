"""The supported versions of `scheduling.k8s.io`: v1alpha2 of Kubernetes 1.36, v1beta1 of 1.37, and
v1, which is planned for 1.38 with the fields of v1beta1.

They differ in the reference from a PodGroup to its template, and in whether the minimal count of a
gang is mutable. https://github.com/kubernetes/api/tree/master/scheduling
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, field

from webhook.api import names
from webhook.api.objects import ObjectMeta, OwnerReference
from webhook.controller.podgroups.lifecycle import (
    Identity,
    Label,
    Release,
    Resize,
    Seen,
    SeenPodGroup,
    SeenWorkload,
)
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.pod_groups import BASIC, PodGroup, Workload, WorkloadTemplate
from webhook.kubeclient.client import Operation

Body = dict[str, Any]

WORKLOADS: Final = "workloads"
POD_GROUPS: Final = "podgroups"


class _Gang(Struct, rename="camel"):
    min_count: int = 1


class _SchedulingPolicy(Struct):
    gang: _Gang | None = None


class _PodGroupTemplate(Struct, rename="camel"):
    name: str = ""
    scheduling_policy: _SchedulingPolicy = field(default_factory=_SchedulingPolicy)
    priority_class_name: str = ""


class _Reference(Struct, rename="camel"):
    workload_name: str = ""
    template_name: str = ""
    pod_group_template_name: str = ""


class _OldReference(Struct):
    workload: _Reference | None = None


class _PodGroupSpec(Struct, rename="camel"):
    """The fields of a PodGroup in either API version, and those of a Workload."""

    scheduling_policy: _SchedulingPolicy = field(default_factory=_SchedulingPolicy)
    priority_class_name: str = ""
    workload_ref: _Reference | None = None
    pod_group_template_ref: _OldReference | None = None
    pod_group_templates: list[_PodGroupTemplate] | None = None
    scheduling_constraints: Any = None


class ReadObject(Struct):
    """A PodGroup or a Workload."""

    metadata: ObjectMeta
    spec: _PodGroupSpec = field(default_factory=_PodGroupSpec)

    def seen(self, resource: str) -> Seen:
        identity = _identity(self.metadata)
        if resource == WORKLOADS:
            templates = self.spec.pod_group_templates or []
            counts = [
                WorkloadTemplate(template.name, _count(template.scheduling_policy))
                for template in templates
            ]
            priority = templates[0].priority_class_name if templates else ""
            return SeenWorkload(identity, tuple(counts), priority)
        old = self.spec.pod_group_template_ref
        reference = self.spec.workload_ref or (old and old.workload) or _Reference()
        finalizers = self.metadata.finalizers or []
        return SeenPodGroup(
            identity,
            _count(self.spec.scheduling_policy),
            priority_class=(self.metadata.annotations or {}).get(
                names.ANNOTATION_PRIORITY_CLASS, self.spec.priority_class_name
            ),
            workload=reference.workload_name,
            template=reference.template_name or reference.pod_group_template_name,
            protection=finalizers.index(names.FINALIZER_POD_GROUP)
            if names.FINALIZER_POD_GROUP in finalizers
            else None,
        )


def labels(cluster: str) -> dict[str, str]:
    """Return the labels that select the objects of a RayCluster."""
    return {names.LABEL_CLUSTER: cluster, names.LABEL_MANAGED_BY: names.MANAGER}


def metadata(cluster_config: RayClusterConfig, name: str) -> Body:
    """Return the metadata of an object that a RayCluster owns."""
    owner = {
        "apiVersion": f"{names.RAY_GROUP}/{names.RAY_VERSIONS[0]}",
        "kind": names.RAYCLUSTER_KIND,
        "name": cluster_config.name,
        "uid": cluster_config.uid,
        "controller": True,
    }
    return {
        "name": name,
        "namespace": cluster_config.namespace,
        "labels": labels(cluster_config.name),
        "ownerReferences": [owner],
    }


def resource_of(what: Seen | Workload | PodGroup) -> str:
    """Return the resource (plural) of an object."""
    return WORKLOADS if isinstance(what, Workload | SeenWorkload) else POD_GROUPS


def operations(action: Resize | Label | Release, cluster: str) -> Sequence[Operation]:
    """Return the JSON Patch of an action."""
    seen_object = action.seen
    if isinstance(action, Label):
        managed = seen_object.identity.labels | labels(cluster)
        return [{"op": "add", "path": "/metadata/labels", "value": managed}]
    if isinstance(action, Release):
        return [{"op": "remove", "path": f"/metadata/finalizers/{action.seen.protection}"}]
    if isinstance(seen_object, SeenPodGroup):
        return [_replace("/spec", action.min_counts[0])]
    pairs = zip(seen_object.templates, action.min_counts, strict=True)
    return [
        _replace(f"/spec/podGroupTemplates/{place}", count)
        for place, (template, count) in enumerate(pairs)
        if template.min_count != count
    ]


def _replace(place: str, count: int) -> Operation:
    return {"op": "replace", "path": f"{place}/schedulingPolicy/gang/minCount", "value": count}


def pod_group_spec(wanted: PodGroup, workload: str, *, newest: bool) -> Body:
    """Return the spec of a PodGroup from a template of a Workload, or without one; `newest` from
    v1beta1 on.
    """
    spec = {**_priority(wanted.priority_class), "schedulingPolicy": _policy(wanted.min_count)}
    if newest and wanted.replica:
        spec["disruptionMode"] = {"all": {}}
    if newest and wanted.topology_key:
        spec["schedulingConstraints"] = {"topology": [{"key": wanted.topology_key}]}
    if workload and newest:
        spec["workloadRef"] = {"workloadName": workload, "templateName": wanted.template}
    elif workload:
        reference = {"workloadName": workload, "podGroupTemplateName": wanted.template}
        spec["podGroupTemplateRef"] = {"workload": reference}
    return spec


def workload_spec(cluster_config: RayClusterConfig, wanted: Workload) -> Body:
    """Return the spec of a Workload."""
    priority = _priority(wanted.priority_class)
    templates = [
        {"name": template.name, **priority, "schedulingPolicy": _policy(template.min_count)}
        for template in wanted.templates
    ]
    reference = {
        "apiGroup": names.RAY_GROUP,
        "kind": names.RAYCLUSTER_KIND,
        "name": cluster_config.name,
    }
    return {"controllerRef": reference, "podGroupTemplates": templates}


def _priority(name: str) -> Body:
    return {"priorityClassName": name} if name else {}


def _policy(min_count: int) -> Body:
    return {"basic": {}} if min_count == BASIC else {"gang": {"minCount": min_count}}


def _count(policy: _SchedulingPolicy) -> int:
    return policy.gang.min_count if policy.gang else BASIC


def _identity(meta: ObjectMeta) -> Identity:
    object_labels, controller = meta.labels or {}, meta.controller or OwnerReference()
    labelled = labels(controller.name).items() <= object_labels.items()
    return Identity(
        meta.name or "",
        meta.uid or "",
        version=meta.resource_version,
        controller=controller.uid,
        deleting=meta.deletion_timestamp is not None,
        labelled=labelled,
        labels={} if labelled else object_labels,
    )
