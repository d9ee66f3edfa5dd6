"""The pods and other objects that a Ray object needs beside those that exist."""

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from webhook.api import names
from webhook.api.namespace_limits import NamespaceLimits
from webhook.validation.change import RECREATE
from webhook.validation.field import at
from webhook.validation.pod_amounts import WORK_MAX, PodAmounts, PodTemplate, TemplateReader
from webhook.validation.ray_object import RayObject
from webhook.validation.rule_settings import RuleSettings


class Growth(Struct):
    """The pods and other objects that a Ray object needs in a namespace with limits.

    `ending` are existing pods that KubeRay deletes, each template with their number. `second`: a
    second RayCluster starts beside the old one.
    """

    new: RayObject
    limits: NamespaceLimits
    templates: list[PodTemplate]
    ending: list[tuple[PodAmounts, int]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    second: bool = False

    @property
    def distinct(self) -> Iterable[PodTemplate]:
        """The first template of each amounts, without those of no pods."""
        templates = {id(pod.amounts): pod for pod in reversed(self.templates) if pod.most}
        return reversed(templates.values())


def read_limits(value: object, settings: RuleSettings) -> NamespaceLimits | None:
    """Return the limits of the namespace of an object; None if KubeRay creates no pods of it."""
    if settings.namespaces is None:
        return None
    limits = settings.namespaces.limits(_namespace_of(value))
    if (
        limits is None
        or at(value, "metadata", "deletionTimestamp") is not None
        or at(value, "spec", "managedBy") == names.KUEUE_MULTIKUEUE
    ):
        return None
    return limits


def read_growth(old: RayObject | None, new: RayObject, *, second: bool = False) -> Growth | None:
    """Return what a new object or an update needs; None if it needs nothing that its old version
    does not, or if the namespace has no limits. For an update that only scales, and for an object
    that is not updated, `old` is `new`: it needs the pods of `replicas`.
    """
    limits = read_limits(new.root.value, new.settings)
    if limits is None:
        return None
    reader = TemplateReader(limits, raised=new.settings.raise_wait_gcs_ready)
    templates = reader.read(new, current=old is new)
    old_templates = templates if old is new else [] if old is None else reader.read(old)
    if reader.work > WORK_MAX:
        return None
    growth = Growth(new, limits, templates, second=second)
    if old is None or second:
        growth.counts = _count_objects(new, second=second)
        return growth
    if old is not new and not _grows(old, old_templates, new, templates):
        return None
    growth.ending = [*_count_existing(old, old_templates, new, templates)]
    return growth


def _grows(
    old: RayObject, old_templates: list[PodTemplate], new: RayObject, templates: list[PodTemplate]
) -> bool:
    """Return whether amounts or numbers of pods changed. A RayJob that runs is not changed."""
    if at(old.root.value, "status", "rayClusterName"):
        return False
    if _is_suspended(old) and not _is_suspended(new):
        return True
    old_pods, new_pods = (
        [(template.group, template.least, template.most, template.amounts) for template in part]
        for part in (old_templates, templates)
    )
    return old_pods != new_pods


def _count_existing(
    old: RayObject, old_templates: list[PodTemplate], new: RayObject, templates: list[PodTemplate]
) -> Iterator[tuple[PodAmounts, int]]:
    """Set the existing pods of templates, and yield those that KubeRay deletes. An update changes
    no running pods, unless the upgrade strategy is Recreate or a replica gets more hosts.
    """
    namespaces, cluster = new.settings.namespaces, _running(old)
    namespace = _namespace_of(new.root.value)
    if not cluster or namespaces is None:
        return
    strategy = at(new.root.value, "spec", "upgradeStrategy", "type")
    recreated = new.kind == names.RAYCLUSTER_KIND and strategy == RECREATE
    old_by_group = {template.group: template for template in old_templates}
    for template in templates:
        old_template = old_by_group.get(template.group)
        if old_template is None:
            continue
        number = namespaces.pods(namespace, cluster, template.group)
        if not recreated and template.hosts <= old_template.hosts:
            template.existing = min(number, template.most)
        if number > template.existing:
            yield old_template.amounts, number - template.existing


def _namespace_of(value: object) -> str:
    namespace = at(value, "metadata", "namespace")
    return namespace if namespace and type(namespace) is str else "default"


def _running(ray_object: RayObject) -> str:
    """Return the name of the RayCluster whose pods run, empty without one."""
    if ray_object.cluster is not None and (ray_object.cluster.field / "suspend").flag:
        return ""
    if ray_object.kind == names.RAYCLUSTER_KIND:
        return (ray_object.meta / "name").text
    status = ray_object.root / "status"
    return (status / "activeServiceStatus" / "rayClusterName").text


def _is_suspended(ray_object: RayObject) -> bool:
    return at(ray_object.root.value, "spec", "suspend") is True


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
