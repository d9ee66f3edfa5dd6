"""Gang scheduling, which the label `ray.io/gang-scheduling-enabled` asks for."""

from collections.abc import Iterator
from typing import Final

from webhook.kube import names
from webhook.kube.review import NOT_SUPPORTED
from webhook.validation.cluster import Cluster
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.rule import warn

_GATE: Final = "KubernetesWAS"
_WORKER_GROUPS_MAX: Final = 7
"""A Workload and a Kueue workload have 8 pod groups at most, and the head is one."""


def gang_autoscaled(cluster: Cluster) -> Iterator[Fault]:
    """Gang scheduling of a cluster that autoscales.

    Kubernetes' own scheduler cannot know how many pods will come, so KubeRay leaves the gang out without a word.

    https://github.com/ray-project/kuberay/pull/4962
    """
    if _asked(cluster) and cluster.autoscaling:
        yield Fault(_label(cluster), "no gang while autoscaling: KubeRay leaves it out; turn off one of the two")


def gang_other_scheduler(cluster: Cluster) -> Iterator[Fault]:
    """Gang scheduling by Kubernetes' own scheduler, and settings for another scheduler.

    With the feature gate KubernetesWAS on, the operator runs no other batch scheduler, and the pods of a gang must have one
    scheduler.

    https://github.com/ray-project/kuberay/pull/4962
    """
    if not _asked(cluster) or not cluster.settings.enabled(_GATE):
        return
    for label in names.OTHER_SCHEDULER_LABELS:
        if label in cluster.labels:
            yield Fault((cluster.meta / "labels").key(label), f"no effect: {names.LABEL_GANG} uses Kubernetes' own scheduler")
    for group in cluster.everyone:
        field = group.pod / "schedulerName"
        if field.text not in ("", "default-scheduler"):
            yield Fault(field, f"{field.text[:40]}: KubeRay writes default-scheduler, as {names.LABEL_GANG} asks for")


def gang_too_many_groups(cluster: Cluster) -> Iterator[Fault]:
    """Gang scheduling or Kueue with more than seven worker groups.

    A Workload has at most 8 pod groups, and the head is one. KubeRay 1.7 makes a single group of all; others do not.

    https://github.com/ray-project/kuberay/pull/4723
    """
    asked = [label for label in (names.LABEL_GANG, names.LABEL_KUEUE_QUEUE) if cluster.labels.get(label)]
    field = cluster.field / "workerGroupSpecs"
    if asked and field.size > _WORKER_GROUPS_MAX:
        yield Fault(field, f"{field.size} worker groups: a Workload has room for {_WORKER_GROUPS_MAX} and the head ({asked[0]})")


def gang_label_value(cluster: Cluster) -> Iterator[Fault]:
    """A value of the gang label that not all schedulers understand.

    Kubernetes' own scheduler wants `true`; Yunikorn and scheduler-plugins take any value as a yes, even `false`.

    https://github.com/ray-project/kuberay/pull/4962
    """
    value = cluster.labels.get(names.LABEL_GANG)
    if value is not None and value.lower() != "true":
        yield Fault(_label(cluster), f"{value[:40]!r} is a yes for some schedulers only: write true, or remove it", NOT_SUPPORTED)


def scheduling_group_in_template(cluster: Cluster) -> Iterator[Fault]:
    """A scheduling group, written into a template.

    All pods of the group stay pending until somebody creates the PodGroup, and with gang scheduling KubeRay replaces it.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    for group in cluster.everyone:
        field = group.pod / "schedulingGroup"
        if field.given and _asked(cluster):
            yield Fault(field, f"remove it: KubeRay writes its own, as {names.LABEL_GANG} asks for")
        elif field.given:
            yield Fault(field, f"pods of {group.label} wait until you create that PodGroup: remove it, or use {names.LABEL_GANG}")


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
)
