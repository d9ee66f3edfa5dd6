"""Explanation of one pod: the edits that the mutators make to it, by identity or as a head, their
reasons, and whether the pod has them.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

from msgspec import Struct, structs

from webhook.api import names
from webhook.api.objects import Affinity, Container, Lifecycle
from webhook.diagnostics.assigned_pods import (
    AssignedCluster,
    AssignedGroup,
    AssignedReplica,
    is_head,
)
from webhook.diagnostics.expected import Expected
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
from webhook.mutation.pipeline import HEAD_OPT_INS
from webhook.mutation.ray_pod import HEAD_GROUP, HEAD_IDENTITY, Policy
from webhook.objects.live_objects import LivePod
from webhook.objects.object_cache import owner_of

EditState = Literal["has it", "other", "missing"]

HAS: Final = "has it"
MISSING: Final = "missing"


class ExplainedEdit(Struct, frozen=True):
    """An edit to a pod. `containers`: the containers with the variable."""

    what: str
    expected: str
    actual: str | None
    why: str
    containers: tuple[str, ...] = ()

    @property
    def state(self) -> EditState:
        """Whether the pod has the value, another value, or none."""
        if self.actual is None:
            return MISSING
        return HAS if self.actual == self.expected else "other"


class Remark(Struct, frozen=True):
    """A remark of the mutators: a warning, or the reason of an edit that is left out."""

    level: Literal["warning", "info"]
    text: str


class PodExplanation(Struct, frozen=True):
    """The explanation of a worker with its identity, or of a head: the only host of its group."""

    group: str
    replica: int
    name: str
    host: int
    given: tuple[ExplainedEdit, ...]
    remarks: tuple[Remark, ...] = ()

    @property
    def place(self) -> str:
        """The identity in words."""
        name = f" ({self.name})" if self.name else ""
        return f"host {self.host} of replica {self.replica}{name} of group {self.group}"


def describe_pod(
    cluster: AssignedCluster | None, pod: LivePod
) -> tuple[str, PodExplanation | None]:
    """Return a sentence about a Ray pod, and its explanation if it is a head or has an identity."""
    if cluster is None:
        gone = "its RayCluster does not exist, or is being replaced"
        return gone if owner_of(pod) else "it has no owner of kind RayCluster", None
    if cluster.ignored:
        return "of a RayCluster that the webhook ignores, so that it sets nothing", None
    if is_head(pod):
        description, account = f"the head of RayCluster {cluster.name}", _explain_head(cluster, pod)
        if account.given:
            return f"{description}, which has no identity", account
        opt_ins = f"{', '.join(HEAD_OPT_INS)}, or settings"
        only = f"in heads, it sets only what is requested by {opt_ins}"
        return f"{description}, in which the webhook sets nothing: {only}", account
    for group in cluster.groups:
        for replica, host in _identities(group, pod):
            account = _explain(replica, host, pod, _policy_of(pod))
            return f"{account.place} of RayCluster {cluster.name}", account
    description = f"a worker of RayCluster {cluster.name} without an identity"
    return f"{description}, in which the webhook sets nothing", None


def explain_missing_host(
    cluster: AssignedCluster, group_name: str, index: int, host: int
) -> PodExplanation | None:
    """Return the explanation of the next pod of a missing host; None if its replica has no pods."""
    for group in cluster.groups:
        for replica in group.replicas:
            if (group.name, replica.index) == (group_name, index) and replica.every_pod:
                return _explain(replica, host, LivePod(), _policy_of(replica.every_pod[0]))
    return None


def _explain_head(cluster: AssignedCluster, pod: LivePod) -> PodExplanation:
    """Return the explanation of a head, which admission treats as a replica of one host."""
    group = AssignedGroup(cluster, HEAD_GROUP)
    replica = AssignedReplica(
        group, HEAD_IDENTITY.replica, HEAD_IDENTITY.name, {HEAD_IDENTITY.host: [pod]}
    )
    account = _explain(replica, HEAD_IDENTITY.host, pod, _policy_of(pod))
    return structs.replace(account, replica=0)


def _explain(replica: AssignedReplica, host: int, pod: LivePod, policy: Policy) -> PodExplanation:
    """Return the edits of a host of a replica, and whether its pod has them; a missing host has a
    pod without fields.
    """
    expected = Expected(replica, policy)
    edits = expected.edits_for(host)
    explained_edits = [
        explained_edit for edit in edits if (explained_edit := _explain_edit(expected, pod, edit))
    ]
    remarks = (
        Remark("warning" if isinstance(edit, Warn) else "info", edit.text)
        for edit in edits
        if isinstance(edit, Warn | Note)
    )
    return PodExplanation(
        replica.group.name,
        replica.index,
        name=replica.name,
        host=host,
        given=tuple(_merge_containers(explained_edits)),
        remarks=tuple(dict.fromkeys(remarks)),
    )


def _identities(group: AssignedGroup, pod: LivePod) -> Iterator[tuple[AssignedReplica, int]]:
    """Yield the replica and the host of a pod, if the group has it."""
    for replica in group.replicas:
        for host, pods in replica.pods.items():
            if any(host_pod is pod for host_pod in pods):
                yield replica, host
    # Replicas have live pods only, and a pod that is being deleted can be explained, too.
    for identity, terminating_pod in group.terminating:
        if terminating_pod is pod:
            yield (
                AssignedReplica(group, identity.replica, identity.name, {identity.host: [pod]}),
                identity.host,
            )


def _explain_edit(expected: Expected, pod: LivePod, edit: Edit) -> ExplainedEdit | None:
    """Return an edit and the value of the pod; None for an edit that is not explained."""
    actual: str | None
    where: tuple[str, ...] = ()
    match edit:
        case SetEnv(container, edit_name):
            value = f"<{edit.field_path}>" if edit.field_path else str(edit.value)
            actual = expected.actual(pod, edit)
            actual = value if edit.field_path and actual is not None else actual
            where = (expected.name_of(container),)
        case SetField(edit_name, int(seconds)):
            grace = pod.spec.termination_grace_period_seconds
            value, actual = str(seconds), None if grace is None else str(min(grace, seconds))
        case SetField(edit_name, str(value)):
            actual = (pod.spec.hostname if edit_name == "hostname" else pod.spec.subdomain) or None
        case SetField(edit_name, {"podGroupName": str(value)}):
            actual = pod.pod_group or None
        case AppendTerm(kind, term):
            edit_name = "pod affinity" if kind == TOGETHER else "pod anti-affinity"
            value, affinity = str(term["topologyKey"]), pod.spec.affinity or Affinity()
            terms = affinity.together if kind == TOGETHER else affinity.apart
            actual = value if term in terms else None
        case AddClaim(name, value, containers):
            edit_name, actual = f"resource claim {name}", _find_claim_template(pod, name)
            where = tuple(map(expected.name_of, containers))
        case AppendResizeRule(_, resource):
            edit_name, value = f"resizePolicy {resource}", "NotRequired"
            actual = _resize_policy(pod, resource)
        case SetPreStop(container, command):
            where = (expected.name_of(container),)
            hooks = _hooks(pod, *where)
            if hooks.pre_stop is None and hooks.post_start is not None:
                return None  # a container with another hook of its own gets none
            edit_name, value = "preStop", f"a drain of {command[-1]} s"
            actual = None if hooks.pre_stop is None else value  # only its presence is known
        case _:
            return None
    return ExplainedEdit(edit_name, value, actual=actual, why=edit.why, containers=where)


def _hooks(pod: LivePod, name: str) -> Lifecycle:
    """Return the hooks of a container."""
    container = next(
        (
            pod_container
            for pod_container in pod.spec.containers or ()
            if pod_container.name == name
        ),
        None,
    )
    return (container and container.lifecycle) or Lifecycle()


def _find_claim_template(pod: LivePod, name: str) -> str | None:
    """Return the template of a resource claim of a pod; None without this claim."""
    claims = pod.spec.resource_claims or ()
    return next(
        (claim.resource_claim_template_name for claim in claims if claim.name == name), None
    )


def _merge_containers(every: Iterable[ExplainedEdit]) -> Iterator[ExplainedEdit]:
    """Yield distinct edits, with all containers of a variable."""
    containers_by_edit: dict[ExplainedEdit, list[str]] = {}
    for explained_edit in every:
        containers_by_edit.setdefault(structs.replace(explained_edit, containers=()), []).extend(
            explained_edit.containers
        )
    for explained_edit, containers in containers_by_edit.items():
        yield structs.replace(explained_edit, containers=tuple(containers))


def _policy_of(pod: LivePod) -> Policy:
    """Return the policy under which a pod was admitted, derived from the pod: commands cannot read
    the settings of the installation. Without evidence, the default policy, which makes fewer edits.
    """
    container = pod.spec.ray or Container()
    variables = {variable.name: variable for variable in container.variables()}
    apart = (pod.spec.affinity or Affinity()).apart
    grace = pod.spec.termination_grace_period_seconds or 0
    drain = variables.get(names.RAY_DRAIN_TIMEOUT)
    seconds = read_seconds((drain and drain.value) or "") or 0
    zones = (variables.get(name) for name in (names.RAY_NODE_ZONE, names.RAY_NODE_REGION))
    return Policy(
        apart="own" if any(map(_within_namespace, apart)) else "all",
        drain_seconds=seconds if grace >= seconds + MARGIN else 0,
        zones=any(variable is not None and variable.value_from is not None for variable in zones),
        node_labels=None if f"{names.NODE_LABEL}0" in variables else frozenset(),
        no_domains=""
        if _find_claim_template(pod, names.CLAIM_COMPUTE_DOMAIN)
        else "the webhook managed none when this pod was created",
    )


def _within_namespace(term: dict[str, Any]) -> bool:
    """Return whether a term separates a pod from other replicas in its own namespace only."""
    expressions = (term.get("labelSelector") or {}).get("matchExpressions") or ()
    keys = {
        expression.get("key") for expression in expressions if expression.get("operator") == "NotIn"
    }
    ours = not keys.isdisjoint((names.LABEL_REPLICA_NAME, names.LABEL_CLUSTER))
    return ours and term.get("namespaceSelector") is None


def _resize_policy(pod: LivePod, resource: str) -> str | None:
    rules = (pod.spec.ray or Container()).resize_policy or ()
    return next((rule.restart_policy for rule in rules if rule.resource_name == resource), None)


def identity_labels(pod: LivePod) -> list[tuple[str, str]]:
    """Return the identity labels of a pod."""
    keys = (*names.IDENTITY_LABELS, names.LABEL_LEGACY_REPLICA_INDEX)
    return [(key, pod.labels[key]) for key in keys if key in pod.labels]
