"""The account of one pod: what the mutators give in its seat, why, and whether the pod has it."""

from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from webhook.kube import names
from webhook.kube.objects import Affinity, PodAffinity
from webhook.mutation.affinity import TOGETHER
from webhook.mutation.edit import AppendResizeRule, AppendTerm, Edit, SetEnv, SetField
from webhook.status.expected import Expected
from webhook.status.objects import LivePod
from webhook.status.standing import Cluster, Group, Replica

Held = Literal["has it", "other", "missing"]

HAS: Final = "has it"
OTHER: Final = "other"
MISSING: Final = "missing"


class Given(Struct, frozen=True):
    """Something that a pod should have been given. `containers` are those of a variable."""

    what: str
    expected: str
    actual: str | None
    why: str
    containers: tuple[str, ...] = ()

    @property
    def held(self) -> Held:
        """Whether the pod has it, has another value, or lacks it."""
        if self.actual is None:
            return "missing"
        return "has it" if self.actual == self.expected else "other"


class Account(Struct, frozen=True):
    """What is to be said of a worker in its seat."""

    group: str
    replica: int
    name: str
    host: int
    given: tuple[Given, ...]


def account_of(cluster: Cluster, pod: LivePod) -> Account | None:
    """Return the account of a pod of a RayCluster; None for one that has no seat there."""
    for group in cluster.groups:
        found = _find(group, pod)
        if found is not None:
            replica, host = found
            expected = Expected(replica)
            given = tuple(_joined(_given(expected, pod, host)))
            return Account(group.name, replica.index, replica.name, host, given)
    return None


def _find(group: Group, pod: LivePod) -> tuple[Replica, int] | None:
    for replica in group.replicas:
        for host, pods in replica.pods.items():
            if any(each is pod for each in pods):
                return replica, host
    return None


def _given(expected: Expected, pod: LivePod, host: int) -> Iterator[Given]:
    for edit in expected.edits_for(host):
        given = _one(expected, pod, edit)
        if given is not None:
            yield given


def _one(expected: Expected, pod: LivePod, edit: Edit) -> Given | None:
    match edit:
        case SetEnv():
            value = f"<{edit.field_path}>" if edit.field_path else str(edit.value)
            actual = expected.actual(pod, edit)
            shown = value if edit.field_path and actual is not None else actual
            return Given(edit.name, value, shown, edit.why, (expected.container(edit),))
        case SetField("hostname", value, why):
            return Given("hostname", str(value), pod.spec.hostname or None, why)
        case SetField("schedulingGroup", {"podGroupName": value}, why):
            return Given("schedulingGroup", str(value), pod.pod_group or None, why)
        case AppendTerm(kind, term, why):
            key = str(term["topologyKey"])
            what = "together in" if kind == TOGETHER else "apart in"
            return Given(f"affinity, {what}", key, key if _has_term(pod, kind, term) else None, why)
        case AppendResizeRule(resource, why):
            return Given(f"resizePolicy {resource}", "NotRequired", _resize_policy(pod, resource), why)
    return None


def _joined(every: Iterator[Given]) -> Iterator[Given]:
    """Yield what is given, each once, with all the containers of a variable."""
    found: dict[tuple[str, str, str | None, str], list[str]] = {}
    for each in every:
        found.setdefault((each.what, each.expected, each.actual, each.why), []).extend(each.containers)
    for (what, expected, actual, why), containers in found.items():
        yield Given(what, expected, actual, why, tuple(containers))


def _has_term(pod: LivePod, kind: str, term: dict[str, object]) -> bool:
    affinity = pod.spec.affinity or Affinity()
    present = (affinity.pod_affinity if kind == TOGETHER else affinity.pod_anti_affinity) or PodAffinity()
    return term in (present.required_during_scheduling_ignored_during_execution or ())


def _resize_policy(pod: LivePod, resource: str) -> str | None:
    for container in (pod.spec.containers or ())[:1]:
        for rule in container.resize_policy or ():
            if rule.resource_name == resource:
                return rule.restart_policy
    return None


def seat_labels(pod: LivePod) -> list[tuple[str, str]]:
    """Return the labels of a pod that say its seat."""
    keys = (*names.SEAT_LABELS, names.LABEL_LEGACY_REPLICA_INDEX)
    return [(key, pod.labels[key]) for key in keys if key in pod.labels]
