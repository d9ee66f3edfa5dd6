"""Rules of the termination of worker pods: drain time, grace period and `preStop` hooks."""

import re
from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.groups.annotations import DRAIN_SECONDS
from webhook.groups.drain_timeout import DEFAULT_GRACE, MARGIN, own_seconds, read_seconds
from webhook.validation.cluster import Cluster, Group
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import RayObject

_STOPS: Final = re.compile(r"\bray\s+stop\b")


def drain_seconds_invalid(ray_object: RayObject) -> Iterator[Fault]:
    """A drain time that is not in whole seconds.

    Workers would be killed as without the annotation.

    https://docs.ray.io/en/latest/ray-core/fault_tolerance/nodes.html
    """
    field = ray_object.annotation(names.ANNOTATION_DRAIN_SECONDS)
    if problem := DRAIN_SECONDS.problem(field.text):
        yield Fault(field, problem)


def grace_too_short(cluster: Cluster) -> Iterator[Fault]:
    """A drain time that exceeds the grace period of the pod.

    Kubernetes kills the pod `terminationGracePeriodSeconds` after its deletion, even if work is
    running. If the drain time is set by the annotation, the webhook extends the grace period.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
    """
    asked = read_seconds(DRAIN_SECONDS.read(cluster.annotations)) or 0
    for group in cluster.everyone:
        period = group.pod / "terminationGracePeriodSeconds"
        grace = DEFAULT_GRACE if period.number is None else period.number
        own = _own_drain(group)
        if asked and group is not cluster.head:
            drain = asked if own is None else own
            if period.given and drain and grace < drain + MARGIN:
                yield Fault(
                    period,
                    f"terminationGracePeriodSeconds is {grace}, but workers drain for {drain} s: "
                    f"write {drain + MARGIN}, or remove it",
                )
        elif own and own >= grace:
            yield Fault(
                period,
                f"pods drain for {own} s, but have {grace} s: write {own + MARGIN}, or drain less",
            )


def ray_stop_in_pre_stop(ray_object: RayObject) -> Iterator[Fault]:
    """A `preStop` hook with `ray stop`, in a worker group.

    The hook ends all processes of the node immediately, before Ray can drain it. KubeRay had this
    hook once and removed it. Only the first hook of an object is reported.

    https://github.com/ray-project/kuberay/pull/2724
    """
    for group in ray_object.cluster.groups if ray_object.cluster is not None else ():
        for container in group.containers:
            command = container.field / "lifecycle" / "preStop" / "exec" / "command"
            if _STOPS.search(_line(command)):
                yield Fault(command, "ray stop ends what runs on the node at once: remove the hook")
                return


def _own_drain(group: Group) -> int | None:
    """Return the drain time that a template sets for Ray itself, or None."""
    return own_seconds(group.first.literal(names.RAY_DRAIN_TIMEOUT)) if group.first else None


def _line(command: Field) -> str:
    return " ".join(word.text for word in command.items())
