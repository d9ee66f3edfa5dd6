"""Rules of jobs over several TPU slices, which users enable by setting MEGASCALE_NUM_SLICES."""

from collections.abc import Iterator, Mapping

from webhook.accelerators.devices import TPU
from webhook.api import names
from webhook.api.formats import shorten
from webhook.groups.slice_jobs import UNKNOWN_ID, SliceJob, slice_group, slice_jobs
from webhook.validation.change import Update
from webhook.validation.cluster import ClusterSpec, ContainerSpec, GroupSpec
from webhook.validation.field import Field
from webhook.validation.finding import Fault


def slice_count_mismatch(cluster: ClusterSpec) -> Iterator[Fault]:
    """A number of slices that differs from the number of replicas.

    Every replica is one slice. libtpu blocks until all of the given number of slices have
    connected, and further slices cannot join. Groups of 0 replicas count as not scaled up yet.
    Groups with an equal number of slices that none of them has alone are one job: slice ids
    continue over the groups, or are set in all of their templates.

    https://github.com/ray-project/ray/blob/master/python/ray/util/tpu.py
    """
    slice_containers = _multi_slice(cluster)
    jobs = _jobs(cluster) if slice_containers else {}
    for group, container in slice_containers:
        field, value = _number(container), container.literal(names.MEGASCALE_NUM_SLICES)
        job = jobs.get(group.name)
        if job is not None and job.number == value:
            if job.problem and not cluster.autoscaling and group.scale.desired:
                yield Fault(field, job.problem)
        elif value and not (value.isascii() and value.isdigit()):
            message = f"{shorten(value)!r}: write the number of slices, which is that of replicas"
            yield Fault(field, message)
        elif value and not cluster.autoscaling and not container.sets(names.MEGASCALE_SLICE_ID):
            number, replicas = int(value[:9]), group.scale.desired
            if replicas not in (0, number):
                yield Fault(
                    field, f"{value[:9]} slices, but {replicas} replicas: make the two equal"
                )


def multi_slice_autoscaled(cluster: ClusterSpec) -> Iterator[Fault]:
    """A job over several slices in a group that autoscales.

    The number of slices is fixed when pods start; adding or deleting a slice later breaks the job.
    Equal bounds keep the number fixed.

    https://github.com/ray-project/ray/blob/master/python/ray/util/tpu.py
    """
    for group, container in _multi_slice(cluster):
        if cluster.autoscaling and group.scale.min_replicas != group.scale.max_replicas:
            message = (
                "the group autoscales, but slices are counted once: set minReplicas to maxReplicas"
            )
            yield Fault(_number(container), message)


def multi_slice_unreachable(cluster: ClusterSpec) -> Iterator[Fault]:
    """A job over several single-host slices in a cluster without a multi-host group.

    Slices connect to a host name of the cluster's headless service, and KubeRay creates this
    service only for multi-host groups.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/raycluster_controller.go
    (`reconcileHeadlessService`)
    """
    if any(group.hosts > 1 for group in cluster.groups):
        return
    for _, container in _multi_slice(cluster):
        if container.literal(names.MEGASCALE_NUM_SLICES) not in ("", "1"):
            problem = "no group has several hosts, so there is no headless Service"
            yield Fault(_number(container), f"{problem}: create <cluster>-headless")


def slices_renumbered(update: Update) -> Iterator[Fault]:
    """Fewer slices for a job that runs over several slices.

    KubeRay deletes replicas at random and renumbers none, so ids such as 0 and 2 may remain, and
    variables of running pods cannot change. Which replica is out of range is only known after the
    deletion: `ray-webhook status` then reports it (`slice-left-out`). If you delete that replica,
    its replacement receives the free id.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/raycluster_controller.go
    (`reconcileMultiHostWorkerGroup`)
    """
    for old, new in update.pairs():
        if new.multi_slice and new.count(TPU) and 0 < new.scale.desired < old.scale.desired:
            problem = f"replicas is {new.scale.desired}, but slice ids are not renumbered"
            message = f"{problem}: delete what `ray-webhook status` names"
            yield Fault(new.field / "replicas", message)


def _multi_slice(cluster: ClusterSpec) -> list[tuple[GroupSpec, ContainerSpec]]:
    return [
        (group, container)
        for group in cluster.groups_with(TPU)
        for container in group.containers
        if names.MEGASCALE_NUM_SLICES in container.env
    ]


def _jobs(cluster: ClusterSpec) -> Mapping[str, SliceJob]:
    """Return the groups of jobs that span several groups."""
    slice_groups = (
        slice_group(group.name, map(_variables, group.containers), group.scale.desired)
        for group in cluster.groups_with(TPU)
    )
    return slice_jobs([member for member in slice_groups if member is not None])


def _variables(container: ContainerSpec) -> tuple[str, str]:
    return (
        _value(container, names.MEGASCALE_NUM_SLICES),
        _value(container, names.MEGASCALE_SLICE_ID),
    )


def _value(container: ContainerSpec, name: str) -> str:
    return (container.literal(name) or UNKNOWN_ID) if container.sets(name) else ""


def _number(container: ContainerSpec) -> Field:
    return container.value(names.MEGASCALE_NUM_SLICES)
