"""Rules of gang scheduling: KubeRay's, enabled by a label, and the webhook's own, enabled by an
annotation.
"""

from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.api.objects import (
    HeadGroup,
    ObjectMeta,
    RayCluster,
    RayClusterSpec,
    Template,
    TemplateSpec,
    WorkerGroup,
)
from webhook.api.review import NOT_SUPPORTED
from webhook.groups.annotations import GRANULARITIES, SCHEDULING_GROUP
from webhook.groups.pod_groups import TEMPLATES_MAX
from webhook.groups.scheduling_groups import NO_GANG, Gang, read_gang
from webhook.validation.cluster import Cluster, Group
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.rule import deny, warn

_GATE: Final = "KubernetesWAS"
_WORKER_GROUPS_MAX: Final = TEMPLATES_MAX - 1
"""The head is one of the pod groups of a Workload, whose number is limited."""


def gang_autoscaled(cluster: Cluster) -> Iterator[Fault]:
    """Gang scheduling of a cluster that autoscales.

    The Kubernetes scheduler needs a fixed number of pods, so KubeRay silently omits gang
    scheduling.

    https://github.com/ray-project/kuberay/pull/4962
    """
    if _asked(cluster) and cluster.autoscaling:
        yield Fault(
            _label(cluster),
            "no effect, as the cluster autoscales: remove it, or enableInTreeAutoscaling",
        )


def gang_other_scheduler(cluster: Cluster) -> Iterator[Fault]:
    """Gang scheduling by the Kubernetes scheduler together with settings for another scheduler.

    With the feature gate KubernetesWAS on, the operator runs no other batch scheduler, and all pods
    of a gang must have the same scheduler.

    https://github.com/ray-project/kuberay/pull/4962
    """
    if not _asked(cluster) or not cluster.settings.enabled(_GATE):
        return
    for label in names.OTHER_SCHEDULER_LABELS:
        if label in cluster.labels:
            yield Fault(
                (cluster.meta / "labels").key(label),
                f"no effect beside {names.LABEL_GANG}: remove one of the two",
            )
    for group in cluster.everyone:
        field = group.pod / "schedulerName"
        if field.text not in ("", "default-scheduler"):
            yield Fault(
                field,
                f"schedulerName is {field.text[:24]}, but {names.LABEL_GANG} needs "
                "default-scheduler",
            )


def gang_too_many_groups(cluster: Cluster) -> Iterator[Fault]:
    """Gang scheduling with more than seven worker groups.

    A Workload has at most 8 pod groups, and the head is one. KubeRay 1.7 creates a single group for
    all pods; other releases do not.

    https://github.com/ray-project/kuberay/pull/4723
    """
    field = cluster.field / "workerGroupSpecs"
    if cluster.labels.get(names.LABEL_GANG) and field.size > _WORKER_GROUPS_MAX:
        yield Fault(
            field,
            f"{field.size} worker groups: a Workload contains at most "
            f"{_WORKER_GROUPS_MAX} and the head",
        )


def gang_label_value(cluster: Cluster) -> Iterator[Fault]:
    """A value of the gang scheduling label that only some schedulers accept.

    The Kubernetes scheduler expects `true`; Yunikorn and scheduler-plugins enable gang scheduling
    for any value, even `false`.

    https://github.com/ray-project/kuberay/pull/4962
    """
    value = cluster.labels.get(names.LABEL_GANG)
    if value is not None and value.lower() != "true":
        yield Fault(
            _label(cluster),
            f"{value[:40]!r} is true for some schedulers only: write true, or remove it",
            NOT_SUPPORTED,
        )


def scheduling_group_in_template(cluster: Cluster) -> Iterator[Fault]:
    """A scheduling group in a pod template.

    All pods of the group stay Pending until the PodGroup is created, and with gang scheduling
    KubeRay replaces the scheduling group.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    ours = _gang(cluster).active
    for group in cluster.everyone:
        field = group.pod / "schedulingGroup"
        if field.given and _asked(cluster):
            yield Fault(field, f"with {names.LABEL_GANG}, KubeRay sets schedulingGroup: remove it")
        elif field.given and ours:
            yield Fault(
                field,
                f"schedulingGroup is set, so {_annotation(cluster).token} has no "
                "effect: remove one",
            )
        elif field.given:
            yield Fault(
                field,
                f"set by hand: use {names.ANNOTATION_SCHEDULING_GROUP} or {names.LABEL_GANG}",
            )


def scheduling_group_unknown(cluster: Cluster) -> Iterator[Fault]:
    """A scheduling group of a kind that does not exist.

    The pods are silently scheduled one by one.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    if problem := SCHEDULING_GROUP.problem(SCHEDULING_GROUP.read(cluster.annotations)):
        yield Fault(_annotation(cluster), problem, NOT_SUPPORTED)


def native_scheduling_value(cluster: Cluster) -> Iterator[Fault]:
    """A value of `ray.io/native-workload-scheduling` other than `true` and `false`.

    Only `true` enables it, so the pods are scheduled one by one.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    value = cluster.annotations.get(names.ANNOTATION_NATIVE_SCHEDULING, "")
    if (
        value.lower() not in ("", "true", "false")
        and names.ANNOTATION_SCHEDULING_GROUP not in cluster.annotations
    ):
        field = cluster.annotation(names.ANNOTATION_NATIVE_SCHEDULING)
        yield Fault(field, f"{value[:40]!r} has no effect: write true, or remove it", NOT_SUPPORTED)


def scheduling_group_obstacle(cluster: Cluster) -> Iterator[Fault]:
    """A scheduling group whose preconditions are not met.

    The pods are scheduled one by one. The number of pods of an autoscaled cluster changes, so only
    replicas of several hosts and worker groups can be grouped, worker groups with their minimum
    number of pods; KubeRay and other schedulers create pod groups of their own; Kubernetes forbids
    a scheduling group together with `evictionResponders`; and a PodGroup whose pods differ in
    priority or scheduler is never scheduled.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    gang = _gang(cluster)
    if gang.obstacle and gang.granularity in GRANULARITIES:
        yield Fault(_annotation(cluster), f"not grouped: {gang.obstacle}")


def scheduling_group_not_served(cluster: Cluster) -> Iterator[Fault]:
    """A scheduling group in a Kubernetes cluster whose API server serves no PodGroups.

    The API server silently drops the field from pods, and they are scheduled one by one.
    `ray-webhook validate` does not check this.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    if cluster.settings.pod_groups is False and _gang(cluster).active:
        yield Fault(
            _annotation(cluster),
            "no effect: the API server serves no PodGroups; turn on GenericWorkload and its API",
        )


def _gang(cluster: Cluster) -> Gang:
    """Return the gang that pod mutation derives from the same object."""
    if (
        not {names.ANNOTATION_SCHEDULING_GROUP, names.ANNOTATION_NATIVE_SCHEDULING}
        & cluster.annotations.keys()
    ):
        return NO_GANG
    spec = RayClusterSpec(
        head_group_spec=HeadGroup(_template(cluster.head)),
        enable_in_tree_autoscaling=cluster.autoscaling,
        worker_group_specs=[
            WorkerGroup(group.name, template=_template(group)) for group in cluster.groups
        ],
    )
    return read_gang(
        RayCluster(ObjectMeta(labels=cluster.labels, annotations=cluster.annotations), spec)
    )


def _template(group: Group) -> Template:
    return Template(
        TemplateSpec(
            (group.pod / "priorityClassName").text,
            (group.pod / "schedulerName").text,
            (group.pod / "evictionResponders").value,
        )
    )


def _annotation(cluster: Cluster) -> Field:
    """Return the annotation that enables scheduling groups: the webhook's, else the one that was
    proposed for KubeRay and never added.
    """
    own = cluster.annotation(names.ANNOTATION_SCHEDULING_GROUP)
    return own if own.given else cluster.annotation(names.ANNOTATION_NATIVE_SCHEDULING)


def _asked(cluster: Cluster) -> bool:
    return cluster.labels.get(names.LABEL_GANG, "").lower() == "true"


def _label(cluster: Cluster) -> Field:
    return (cluster.meta / "labels").key(names.LABEL_GANG)


SCHEDULING: Final = (
    warn(gang_autoscaled),
    warn(gang_other_scheduler),
    warn(gang_too_many_groups),
    warn(gang_label_value),
    warn(scheduling_group_in_template),
    deny(scheduling_group_unknown),
    warn(native_scheduling_value),
    warn(scheduling_group_obstacle),
    warn(scheduling_group_not_served),
)
