"""Explanation of one pod: the edits that the mutators make to it, by identity or as a head, their
reasons, and whether the pod has them.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

from msgspec import Struct, structs

from webhook.api import names
from webhook.api.objects import Affinity, Container, Lifecycle
from webhook.diagnostics.assigned_pods import Cluster, Group, Replica, is_head
from webhook.diagnostics.expected import Expected
from webhook.diagnostics.live_objects import LivePod
from webhook.diagnostics.object_cache import owner_of
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
from webhook.mutation.ray_pod import HEAD_GROUP, HEAD_IDENTITY, Policy

Held = Literal["has it", "other", "missing"]

HAS: Final = "has it"
MISSING: Final = "missing"


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
            return MISSING
        return HAS if self.actual == self.expected else "other"


class Remark(Struct, frozen=True):
    """A remark of the mutators: a warning, or the reason of an edit that is left out."""

    level: Literal["warning", "info"]
    text: str


class Account(Struct, frozen=True):
    """The explanation of a worker with its identity, or of a head: the only host of its group."""

    group: str
    replica: int
    name: str
    host: int
    given: tuple[Given, ...]
    remarks: tuple[Remark, ...] = ()

    @property
    def place(self) -> str:
        """The identity in words."""
        name = f" ({self.name})" if self.name else ""
        return f"host {self.host} of replica {self.replica}{name} of group {self.group}"


def describe_pod(cluster: Cluster | None, pod: LivePod) -> tuple[str, Account | None]:
    """Return a sentence about a Ray pod, and its explanation if it is a head or has an identity."""
    if cluster is None:
        gone = "its RayCluster does not exist, or is being replaced"
        return gone if owner_of(pod) else "it has no owner of kind RayCluster", None
    if cluster.ignored:
        return "of a RayCluster that the webhook ignores, so that it sets nothing", None
    if is_head(pod):
        text, account = f"the head of RayCluster {cluster.name}", _head_account(cluster, pod)
        if account.given:
            return f"{text}, which has no identity", account
        asked = f"{', '.join(HEAD_ASKED)}, or settings"
        only = f"in heads, it sets only what is requested by {asked}"
        return f"{text}, in which the webhook sets nothing: {only}", account
    for group in cluster.groups:
        for replica, host in _identities(group, pod):
            account = _account(replica, host, pod, _policy_of(pod))
            return f"{account.place} of RayCluster {cluster.name}", account
    text = f"a worker of RayCluster {cluster.name} without an identity"
    return f"{text}, in which the webhook sets nothing", None


def account_due(cluster: Cluster, group_name: str, index: int, host: int) -> Account | None:
    """Return the explanation of the next pod of a missing host; None if its replica has no pods."""
    for group in cluster.groups:
        for replica in group.replicas:
            if (group.name, replica.index) == (group_name, index) and replica.everyone:
                return _account(replica, host, LivePod(), _policy_of(replica.everyone[0]))
    return None


def _head_account(cluster: Cluster, pod: LivePod) -> Account:
    """Return the explanation of a head, which admission treats as a replica of one host."""
    group = Group(cluster, HEAD_GROUP)
    replica = Replica(group, HEAD_IDENTITY.replica, HEAD_IDENTITY.name, {HEAD_IDENTITY.host: [pod]})
    account = _account(replica, HEAD_IDENTITY.host, pod, _policy_of(pod))
    return structs.replace(account, replica=0)


def _account(replica: Replica, host: int, pod: LivePod, policy: Policy) -> Account:
    """Return the edits of a host of a replica, and whether its pod has them; a missing host has a
    pod without fields.
    """
    expected = Expected(replica, policy)
    edits = expected.edits_for(host)
    given = [each for edit in edits if (each := _given(expected, pod, edit))]
    remarks = (
        Remark("warning" if isinstance(edit, Warn) else "info", edit.text)
        for edit in edits
        if isinstance(edit, Warn | Note)
    )
    return Account(
        replica.group.name,
        replica.index,
        replica.name,
        host,
        tuple(_joined(given)),
        tuple(dict.fromkeys(remarks)),
    )


def _identities(group: Group, pod: LivePod) -> Iterator[tuple[Replica, int]]:
    """Yield the replica and the host of a pod, if the group has it."""
    for replica in group.replicas:
        for host, pods in replica.pods.items():
            if any(each is pod for each in pods):
                yield replica, host
    for identity, each in group.leaving:
        if each is pod:
            yield (
                Replica(group, identity.replica, identity.name, {identity.host: [pod]}),
                identity.host,
            )


def _given(expected: Expected, pod: LivePod, edit: Edit) -> Given | None:
    """Return an edit and the value of the pod; None for an edit that is not explained."""
    actual: str | None
    where: tuple[str, ...] = ()
    match edit:
        case SetEnv(container, what):
            value = f"<{edit.field_path}>" if edit.field_path else str(edit.value)
            actual = expected.actual(pod, edit)
            actual = value if edit.field_path and actual is not None else actual
            where = (expected.name_of(container),)
        case SetField(what, int(seconds)):
            grace = pod.spec.termination_grace_period_seconds
            value, actual = str(seconds), None if grace is None else str(min(grace, seconds))
        case SetField(what, str(value)):
            actual = (pod.spec.hostname if what == "hostname" else pod.spec.subdomain) or None
        case SetField(what, {"podGroupName": str(value)}):
            actual = pod.pod_group or None
        case AppendTerm(kind, term):
            what = "affinity, together in" if kind == TOGETHER else "affinity, apart in"
            value, affinity = str(term["topologyKey"]), pod.spec.affinity or Affinity()
            terms = affinity.together if kind == TOGETHER else affinity.apart
            actual = value if term in terms else None
        case AddClaim(name, value, containers):
            what, actual = f"resource claim {name}", _claimed(pod, name)
            where = tuple(map(expected.name_of, containers))
        case AppendResizeRule(_, resource):
            what, value = f"resizePolicy {resource}", "NotRequired"
            actual = _resize_policy(pod, resource)
        case SetPreStop(container, command):
            where = (expected.name_of(container),)
            hooks = _hooks(pod, *where)
            if hooks.pre_stop is None and hooks.post_start is not None:
                return None  # a container with another hook of its own gets none
            what, value = "preStop", f"a drain of {command[-1]} s"
            actual = None if hooks.pre_stop is None else value  # only its presence is known
        case _:
            return None
    return Given(what, value, actual, edit.why, where)


def _hooks(pod: LivePod, name: str) -> Lifecycle:
    """Return the hooks of a container."""
    found = next((each for each in pod.spec.containers or () if each.name == name), None)
    return (found and found.lifecycle) or Lifecycle()


def _claimed(pod: LivePod, name: str) -> str | None:
    """Return the template of a resource claim of a pod; None without this claim."""
    claims = pod.spec.resource_claims or ()
    return next((each.resource_claim_template_name for each in claims if each.name == name), None)


def _joined(every: Iterable[Given]) -> Iterator[Given]:
    """Yield distinct edits, with all containers of a variable."""
    found: dict[Given, list[str]] = {}
    for each in every:
        found.setdefault(structs.replace(each, containers=()), []).extend(each.containers)
    for each, containers in found.items():
        yield structs.replace(each, containers=tuple(containers))


def _policy_of(pod: LivePod) -> Policy:
    """Return the policy under which a pod was admitted, derived from the pod: commands cannot read
    the settings of the installation. Without evidence, the default policy, which makes fewer edits.
    """
    container = pod.spec.ray or Container()
    variables = {each.name: each for each in container.variables()}
    apart = (pod.spec.affinity or Affinity()).apart
    grace = pod.spec.termination_grace_period_seconds or 0
    drain = variables.get(names.RAY_DRAIN_TIMEOUT)
    seconds = read_seconds((drain and drain.value) or "") or 0
    zones = (variables.get(name) for name in (names.RAY_NODE_ZONE, names.RAY_NODE_REGION))
    return Policy(
        apart="own" if any(map(_within_namespace, apart)) else "all",
        drain_seconds=seconds if grace >= seconds + MARGIN else 0,
        zones=any(each is not None and each.value_from is not None for each in zones),
        node_labels=None if f"{names.NODE_LABEL}0" in variables else frozenset(),
        no_domains=""
        if _claimed(pod, names.CLAIM_COMPUTE_DOMAIN)
        else "the webhook managed none when this pod was created",
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


def identity_labels(pod: LivePod) -> list[tuple[str, str]]:
    """Return the identity labels of a pod."""
    keys = (*names.IDENTITY_LABELS, names.LABEL_LEGACY_REPLICA_INDEX)
    return [(key, pod.labels[key]) for key in keys if key in pod.labels]
