"""Explanation of one pod: the edits that the mutators make to it, by seat or as a head, their
reasons, and whether the pod has them.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal

from msgspec import Struct, structs

from webhook.api import names
from webhook.api.objects import Affinity, Container, Lifecycle
from webhook.diagnostics.assigned_pods import Cluster, Group, Replica, is_head
from webhook.diagnostics.expected import Expected
from webhook.diagnostics.live_objects import LivePod
from webhook.groups.drain_timeout import MARGIN, read_seconds
from webhook.mutation.edit import (
    TOGETHER,
    AddClaim,
    AppendResizeRule,
    AppendTerm,
    Edit,
    Note,
    SetEnv,
    SetField,
    SetPreStop,
    Warn,
)
from webhook.mutation.pipeline import HEAD_ASKED
from webhook.mutation.ray_pod import HEAD_GROUP, HEAD_SEAT, Policy

Held = Literal["has it", "other", "missing"]

HAS: Final = "has it"
OTHER: Final = "other"
MISSING: Final = "missing"


_NO_POD: Final = LivePod()
"""Placeholder for the pod of a missing host."""


class Given(Struct, frozen=True):
    """An edit to a pod. `containers`: the containers with the variable."""

    what: str
    expected: str
    actual: str | None
    why: str
    containers: tuple[str, ...] = ()

    @property
    def held(self) -> Held:
        """Whether the pod has the value, another value, or none."""
        if self.actual is None:
            return "missing"
        return "has it" if self.actual == self.expected else "other"


class Remark(Struct, frozen=True):
    """A remark of the mutators: a warning, or the reason of an edit that is left out."""

    level: Literal["warning", "info"]
    text: str


class Account(Struct, frozen=True):
    """The explanation of a worker in its seat, or of a head: the only host of its group."""

    group: str
    replica: int
    name: str
    host: int
    given: tuple[Given, ...]
    remarks: tuple[Remark, ...] = ()

    @property
    def place(self) -> str:
        """The seat in words."""
        name = f" ({self.name})" if self.name else ""
        return f"host {self.host} of replica {self.replica}{name} of group {self.group}"


def describe_pod(cluster: Cluster | None, pod: LivePod) -> tuple[str, Account | None]:
    """Return a sentence about a Ray pod, and its explanation if it is a head or has a seat."""
    if cluster is None:
        return "its RayCluster does not exist, or is being replaced", None
    if cluster.ignored:
        return (
            "of a RayCluster that the webhook is asked to leave alone, so that it is given nothing",
            None,
        )
    if is_head(pod):
        account = _head_account(cluster, pod)
        return f"the head of RayCluster {cluster.name}, {_head_share(account)}", account
    found = account_of(cluster, pod)
    if found is None:
        text = f"a worker of RayCluster {cluster.name} without a seat, which is given nothing"
        return text, None
    return f"{found.place} of RayCluster {cluster.name}", found


def account_due(cluster: Cluster, group_name: str, index: int, host: int) -> Account | None:
    """Return the explanation of the next pod of a missing host; None if its replica has no pods."""
    for group in cluster.groups:
        for replica in group.replicas:
            if (group.name, replica.index) == (group_name, index) and replica.everyone:
                return _account(replica, host, None, _policy_of(replica.everyone[0]))
    return None


def account_of(cluster: Cluster, pod: LivePod) -> Account | None:
    """Return the explanation of a worker pod; None if it has no seat."""
    for group in cluster.groups:
        found = _find(group, pod)
        if found is not None:
            replica, host = found
            return _account(replica, host, pod, _policy_of(pod))
    return None


def _head_account(cluster: Cluster, pod: LivePod) -> Account:
    """Return the explanation of a head, which admission treats as a replica of one host."""
    group = Group(cluster, HEAD_GROUP)
    replica = Replica(group, HEAD_SEAT.replica, HEAD_SEAT.name, {HEAD_SEAT.host: [pod]})
    account = _account(replica, HEAD_SEAT.host, pod, _policy_of(pod))
    return structs.replace(account, replica=0)


def _head_share(account: Account) -> str:
    """Return a phrase about a head: it has no seat, and the reason if it gets no edits."""
    if account.given:
        return "which has no seat"
    asked = f"{', '.join(HEAD_ASKED)}, or settings"
    return f"which has no seat, and is given nothing: heads get only what is asked for by {asked}"


def _account(replica: Replica, host: int, pod: LivePod | None, policy: Policy) -> Account:
    """Return the edits of a host of a replica, and whether its pod, if any, has them."""
    expected = Expected(replica, policy)
    given = tuple(_joined(_given(expected, pod, host)))
    remarks = tuple(dict.fromkeys(_remarks(expected, host)))
    return Account(replica.group.name, replica.index, replica.name, host, given, remarks)


def _remarks(expected: Expected, host: int) -> Iterator[Remark]:
    for edit in expected.edits_for(host):
        if isinstance(edit, Warn | Note):
            yield Remark("warning" if isinstance(edit, Warn) else "info", edit.text)


def _find(group: Group, pod: LivePod) -> tuple[Replica, int] | None:
    for replica in group.replicas:
        for host, pods in replica.pods.items():
            if any(each is pod for each in pods):
                return replica, host
    for (index, name), leaving in group.leaving.items():
        for host, each in leaving:
            if each is pod:
                return Replica(group, index, name, {host: [pod]}), host
    return None


def _given(expected: Expected, pod: LivePod | None, host: int) -> Iterator[Given]:
    for edit in expected.edits_for(host):
        given = _one(expected, pod, edit)
        if given is not None:
            yield given


def _one(expected: Expected, pod: LivePod | None, edit: Edit) -> Given | None:
    given = _in_pod(expected, pod or _NO_POD, edit)
    return given if pod is not None or given is None else structs.replace(given, actual=None)


def _in_pod(expected: Expected, pod: LivePod, edit: Edit) -> Given | None:
    match edit:
        case SetEnv():
            value = f"<{edit.field_path}>" if edit.field_path else str(edit.value)
            actual = expected.actual(pod, edit)
            shown = value if edit.field_path and actual is not None else actual
            return Given(edit.name, value, shown, edit.why, (expected.container(edit),))
        case SetField():
            return _field(pod, edit)
        case AppendTerm(kind, term, why):
            key = str(term["topologyKey"])
            what = "together in" if kind == TOGETHER else "apart in"
            return Given(f"affinity, {what}", key, key if _has_term(pod, kind, term) else None, why)
        case AddClaim() | SetPreStop() | AppendResizeRule():
            return _in_spec(expected, pod, edit)
    return None


def _in_spec(
    expected: Expected, pod: LivePod, edit: AddClaim | SetPreStop | AppendResizeRule
) -> Given | None:
    match edit:
        case AddClaim(name, template, containers, why):
            where = tuple(map(expected.name_of, containers))
            return Given(f"resource claim {name}", template, _claimed(pod, name), why, where)
        case SetPreStop(container, command, why):
            return _hook(pod, expected.name_of(container), f"a drain of {command[-1]} s", why)
        case AppendResizeRule(_, resource, why):
            return Given(
                f"resizePolicy {resource}", "NotRequired", _resize_policy(pod, resource), why
            )


def _claimed(pod: LivePod, name: str) -> str | None:
    """Return the template of a resource claim of a pod; None without this claim."""
    claims = pod.spec.resource_claims or ()
    return next((each.resource_claim_template_name for each in claims if each.name == name), None)


def _field(pod: LivePod, edit: SetField) -> Given | None:
    match edit:
        case SetField("hostname", str(value), why):
            return Given("hostname", value, pod.spec.hostname or None, why)
        case SetField("subdomain", str(value), why):
            return Given("subdomain", value, pod.spec.subdomain or None, why)
        case SetField("schedulingGroup", {"podGroupName": value}, why):
            return Given("schedulingGroup", str(value), pod.pod_group or None, why)
        case SetField("terminationGracePeriodSeconds" as what, int(value), why):
            grace = pod.spec.termination_grace_period_seconds
            enough = None if grace is None else str(min(grace, value))
            return Given(what, str(value), enough, why)
    return None


def _joined(every: Iterator[Given]) -> Iterator[Given]:
    """Yield distinct edits, with all containers of a variable."""
    found: dict[tuple[str, str, str | None, str], list[str]] = {}
    for each in every:
        found.setdefault((each.what, each.expected, each.actual, each.why), []).extend(
            each.containers
        )
    for (what, expected, actual, why), containers in found.items():
        yield Given(what, expected, actual, why, tuple(containers))


def _has_term(pod: LivePod, kind: str, term: dict[str, object]) -> bool:
    affinity = pod.spec.affinity or Affinity()
    return term in (affinity.together if kind == TOGETHER else affinity.apart)


def _hook(pod: LivePod, name: str, value: str, why: str) -> Given | None:
    """Return the `preStop` edit of a container; only the presence of a hook is known. A container
    with another hook of its own gets none.
    """
    found = next((each for each in pod.spec.containers or () if each.name == name), None)
    lifecycle = (found and found.lifecycle) or Lifecycle()
    if lifecycle.pre_stop is None and lifecycle.post_start is not None:
        return None
    return Given("preStop", value, None if lifecycle.pre_stop is None else value, why, (name,))


def _policy_of(pod: LivePod) -> Policy:
    """Return the policy under which a pod was admitted, derived from the pod: commands cannot read
    the settings of the installation. Without evidence, the default policy, which makes fewer edits.
    """
    container = pod.spec.ray or Container()
    variables = {each.name: each for each in container.variables()}
    apart = (pod.spec.affinity or Affinity()).apart
    grace = pod.spec.termination_grace_period_seconds or 0
    resized = {rule.resource_name for rule in container.resize_policy or ()}
    drain = variables.get(names.RAY_DRAIN_TIMEOUT)
    seconds = read_seconds((drain and drain.value) or "") or 0
    zones = (variables.get(name) for name in (names.RAY_NODE_ZONE, names.RAY_NODE_REGION))
    return Policy(
        resize="all" if {"cpu", "memory"} <= resized else "listed" if resized else "none",
        apart="own" if any(map(_within_namespace, apart)) else "all",
        drain_seconds=seconds if grace >= seconds + MARGIN else 0,
        zones=any(each is not None and each.value_from is not None for each in zones),
        node_labels=None if f"{names.NODE_LABEL}0" in variables else frozenset(),
        no_domains=""
        if _claimed(pod, names.CLAIM_COMPUTE_DOMAIN)
        else "the webhook kept none when this pod was created",
    )


def _within_namespace(term: dict[str, Any]) -> bool:
    """Return whether a term separates a pod from other replicas in its own namespace only."""
    expressions = (term.get("labelSelector") or {}).get("matchExpressions") or ()
    keys = {each.get("key") for each in expressions if each.get("operator") == "NotIn"}
    ours = not keys.isdisjoint((names.LABEL_REPLICA_NAME, names.LABEL_CLUSTER))
    return ours and term.get("namespaceSelector") is None


def _resize_policy(pod: LivePod, resource: str) -> str | None:
    rules = (pod.spec.ray or Container()).resize_policy or ()
    return next((rule.restart_policy for rule in rules if rule.resource_name == resource), None)


def seat_labels(pod: LivePod) -> list[tuple[str, str]]:
    """Return the seat labels of a pod."""
    keys = (*names.SEAT_LABELS, names.LABEL_LEGACY_REPLICA_INDEX)
    return [(key, pod.labels[key]) for key in keys if key in pod.labels]
