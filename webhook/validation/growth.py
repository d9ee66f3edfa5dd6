"""The pods and other objects that a Ray object needs beside those that exist."""

from collections.abc import Iterable
from functools import cached_property
from typing import Final

from msgspec import Struct

from webhook.api import names
from webhook.api.namespace_limits import NamespaceLimits
from webhook.validation.change import RECREATE
from webhook.validation.pod_amounts import PodAmounts, PodTemplate, TemplateReader
from webhook.validation.ray_object import RayObject

_WORK_MAX: Final = 200_000
"""Containers times amounts of quotas and LimitRanges; more are not compared."""


class Growth(Struct, dict=True):
    """The pods and other objects that a Ray object needs in a namespace with limits.

    `ending` are existing pods that KubeRay deletes, each template with their number. `second`: a
    second RayCluster starts beside the old one.
    """

    new: RayObject
    limits: NamespaceLimits
    templates: list[PodTemplate]
    ending: list[tuple[PodAmounts, int]]
    counts: dict[str, int]
    second: bool = False

    @cached_property
    def distinct(self) -> list[PodTemplate]:
        """The first template of each amounts, without those of no pods."""
        templates = {id(pod.amounts): pod for pod in reversed(self.templates) if pod.most}
        return [*reversed(templates.values())]


def read_growth(old: RayObject | None, new: RayObject, *, second: bool = False) -> Growth | None:
    """Return what a new object or an update needs; None if it needs nothing that its old version
    does not, or if the namespace has no limits. For an update that only scales, and for an object
    that is not updated, `old` is `new`: it needs the pods of `replicas`.
    """
    limits = _read_limits(new)
    if limits is None:
        return None
    reader = TemplateReader(limits.limits, raised=new.settings.raise_wait_gcs_ready)
    templates = reader.read(new, current=old is new)
    if old is None or second:
        counts = _count_objects(new, second=second)
        return Growth(new, limits, templates=templates, ending=[], counts=counts, second=second)
    old_templates = templates if old is new else reader.read(old)
    if old is not new and not _grows(old, old_templates, new, templates):
        return None
    return Growth(
        new,
        limits,
        templates=templates,
        ending=_count_existing(old, old_templates, new, templates),
        counts={},
    )


def _read_limits(new: RayObject) -> NamespaceLimits | None:
    """Return the limits of the namespace if pods of the object are created in it."""
    namespaces = new.settings.namespaces
    if namespaces is None or (new.cluster is None and new.job is None):
        return None
    limits = namespaces.limits(_namespace_of(new))
    if (
        limits is None
        or (new.meta / "deletionTimestamp").given
        or (new.root / "spec" / "managedBy").text == names.KUEUE_MULTIKUEUE
        or _count_containers(new) * limits.size > _WORK_MAX
    ):
        return None
    return limits


def _count_containers(new: RayObject) -> int:
    """Return the number of containers of all templates."""
    specs = [] if new.cluster is None else [group.pod.map for group in new.cluster.everyone]
    specs += [] if new.job is None else [(new.job.submitter / "spec").map]
    lists = [spec.get(key) for spec in specs for key in ("containers", "initContainers")]
    return sum(len(entries) for entries in lists if type(entries) is list)


def _grows(
    old: RayObject,
    old_templates: Iterable[PodTemplate],
    new: RayObject,
    templates: Iterable[PodTemplate],
) -> bool:
    """Return whether amounts or numbers of pods changed. A RayJob that runs is not changed."""
    if (old.root / "status" / "rayClusterName").text:
        return False
    if _is_suspended(old) and not _is_suspended(new):
        return True
    old_pods, new_pods = (
        [(template.group, template.least, template.most, template.amounts) for template in part]
        for part in (old_templates, templates)
    )
    return old_pods != new_pods


def _count_existing(
    old: RayObject,
    old_templates: Iterable[PodTemplate],
    new: RayObject,
    templates: Iterable[PodTemplate],
) -> list[tuple[PodAmounts, int]]:
    """Set the existing pods of templates, and return those that KubeRay deletes. An update changes
    no running pods, unless the upgrade strategy is Recreate or a replica gets more hosts.
    """
    namespaces, cluster, namespace = new.settings.namespaces, _running(old), _namespace_of(new)
    if not cluster or namespaces is None:
        return []
    old_by_group = {template.group: template for template in old_templates}
    recreated = (
        new.cluster is not None
        and new.kind == names.RAYCLUSTER_KIND
        and ((new.cluster.field / "upgradeStrategy" / "type").text == RECREATE)
    )
    ending = []
    for template in templates:
        old_template = old_by_group.get(template.group)
        if old_template is None:
            continue
        number = namespaces.pods(namespace, cluster, template.group)
        if not recreated and template.hosts <= old_template.hosts:
            template.existing = min(number, template.most)
        if number > template.existing:
            ending.append((old_template.amounts, number - template.existing))
    return ending


def _namespace_of(ray_object: RayObject) -> str:
    return (ray_object.meta / "namespace").text or "default"


def _running(ray_object: RayObject) -> str:
    """Return the name of the RayCluster whose pods run, empty without one."""
    if ray_object.cluster is not None and (ray_object.cluster.field / "suspend").flag:
        return ""
    if ray_object.kind == names.RAYCLUSTER_KIND:
        return (ray_object.meta / "name").text
    status = ray_object.root / "status"
    return (status / "activeServiceStatus" / "rayClusterName").text


def _is_suspended(ray_object: RayObject) -> bool:
    return (ray_object.root / "spec" / "suspend").flag


def _count_objects(new: RayObject, *, second: bool) -> dict[str, int]:
    """Return the numbers of objects beside pods that KubeRay creates, by the names of quotas.

    `second`: only a second RayCluster is created.
    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/service.go
    """
    cluster, job, service = new.cluster, new.job, new.service
    submits = job is not None and job.has_submitter_pod
    counts = {"count/jobs.batch": int(submits)}
    if cluster is not None and (job is None or not job.selects):
        services = 1 + any(group.hosts > 1 for group in cluster.groups)
        services += cluster.enables(names.ENABLE_SERVE_SERVICE)
        if service is not None and not second:
            services += 2  # those of its head and of Serve, which outlive the RayCluster
        counts["services"] = counts["count/services"] = services
        counts["count/rayclusters.ray.io"] = int(new.kind != names.RAYCLUSTER_KIND)
        if (cluster.head.field / "enableIngress").flag:
            counts["count/ingresses.networking.k8s.io"] = 1
        if cluster.autoscaling:
            counts["count/roles.rbac.authorization.k8s.io"] = 1
            counts["count/rolebindings.rbac.authorization.k8s.io"] = 1
    return counts
