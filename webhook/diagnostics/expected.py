"""The expected state of a pod with its identity: what the mutators set on a pod without any."""

from msgspec import Struct, structs

from webhook.api import names
from webhook.api.objects import EnvVar
from webhook.api.review import Denied
from webhook.diagnostics.assigned_pods import AssignedReplica
from webhook.groups.identity import MAX_HOSTS, HostIdentity
from webhook.groups.identity_labels import is_labelled
from webhook.groups.kueue import kueue_level
from webhook.groups.naming import headless_service
from webhook.mutation.edit import TOGETHER, AppendTerm, Edit, SetEnv, SetField
from webhook.mutation.pipeline import host_edits, replica_edits
from webhook.mutation.ray_pod import (
    DEFAULT_POLICY,
    Policy,
    Slot,
    Worker,
    in_multi_slice,
    read_replica,
)
from webhook.mutation.ray_pod import Replica as Template
from webhook.objects.live_objects import LivePod

_SIZES = (names.TPU_WORKER_HOSTNAMES, names.NNODES)
"""Variables that contain the number of hosts of a replica."""


class Difference(Struct, frozen=True):
    """A value of a pod that differs from the expected one; `actual` is None if it is not set."""

    pod: LivePod
    host: int
    name: str
    expected: str
    actual: str | None

    @property
    def shown(self) -> str:
        """The actual value, for a message."""
        return "not set" if self.actual is None else self.actual


class Expected:
    """The expected state of the hosts of one replica, computed once from their common template."""

    def __init__(self, replica: AssignedReplica, policy: Policy = DEFAULT_POLICY) -> None:
        self.replica = replica
        objects = replica.group.cluster.objects
        policy = structs.replace(policy, devices=objects.devices, profiles=objects.profiles)
        self._template = _template(replica, policy)
        self._shared = replica_edits(self._template) if self._template is not None else []
        slots = self._template.slots if self._template is not None else ()
        self._names = {slot.path: slot.name for slot in slots}
        self._edits: dict[int, list[Edit]] = {}
        self._variables: dict[str, dict[str, dict[str, EnvVar]]] = {}
        """By pod, container and name."""

    @property
    def service(self) -> str:
        """The headless Service that resolves the names of the hosts; empty if none is needed."""
        template = self._template
        return template.service if template is not None and template.needs_names else ""

    @property
    def topology_key(self) -> str:
        """The node label whose value all hosts should share; empty if none."""
        for edit in self._shared:
            if type(edit) is AppendTerm and edit.kind == TOGETHER:
                return str(edit.term["topologyKey"])
        template = self._template
        if template is None or not template.slice.placed:
            return ""
        return kueue_level(template.pod.annotations)

    @property
    def placed(self) -> bool:
        """Return whether Kueue selects the nodes of the hosts."""
        return self._template is not None and self._template.slice.placed

    def host_names(self) -> list[Difference]:
        """Return the pods whose host name differs from the name that their peers use."""
        return [
            Difference(
                pod,
                host,
                name=edit.name,
                expected=str(edit.value),
                actual=pod.spec.hostname or None,
            )
            for host, pod in _list_host_pods(self.replica)
            for edit in self._own(host)
            if type(edit) is SetField
            and edit.name == "hostname"
            and pod.spec.hostname != edit.value
        ]

    def places(self) -> list[Difference]:
        """Return the variables that differ from the identity, the first of each pod.

        For a pod without identity labels the variables define the identity: variables that another
        webhook did not set, such as those of init containers, do not differ.
        """
        differences = []
        for host, pod in _list_host_pods(self.replica):
            for edit in self._own(host):
                if (
                    type(edit) is not SetEnv
                    or edit.field_path
                    or edit.name == names.RAY_OVERRIDE_LABELS
                ):
                    continue
                actual = self.actual(pod, edit)
                unset = actual is None and not is_labelled(pod.labels)
                if actual != edit.value and not unset:
                    differences.append(
                        Difference(
                            pod, host, name=edit.name, expected=str(edit.value), actual=actual
                        )
                    )
                    break
        return differences

    def other_size(self) -> Difference | None:
        """Return the first variable that contains another number of hosts than the group has."""
        edits = [edit for edit in self._shared if type(edit) is SetEnv and edit.name in _SIZES]
        for host, pod in _list_host_pods(self.replica):
            for edit in edits:
                actual = self.actual(pod, edit)
                if (
                    actual
                    # The placeholder of images and templates.
                    and actual != "localhost"
                    and _size(edit.name, actual) != _size(edit.name, str(edit.value))
                ):
                    return Difference(
                        pod, host, name=edit.name, expected=str(edit.value), actual=actual
                    )
        return None

    def edits_for(self, host: int) -> list[Edit]:
        """Return all edits for a host."""
        return [*self._own(host), *self._shared]

    def name_of(self, path: str) -> str:
        """Return the name of the container at a path in a pod."""
        return self._names.get(path, "")

    def _own(self, host: int) -> list[Edit]:
        if self._template is None:
            return []
        edits = self._edits.get(host)
        if edits is None:
            edits = self._edits[host] = host_edits(Worker(self._template, host))
        return edits

    def actual(self, pod: LivePod, edit: SetEnv) -> str | None:
        """Return the value of an edit's variable; None if unset. A field counts as expected."""
        variables = self._variables.get(pod.name)
        if variables is None:
            variables = self._variables[pod.name] = _variables(pod)
        variable = variables.get(self.name_of(edit.container), {}).get(edit.name)
        if variable is None:
            return None
        # Only the kubelet resolves it, so it cannot be shown to differ.
        return str(edit.value) if variable.value_from is not None else variable.value


def _list_host_pods(replica: AssignedReplica) -> list[tuple[int, LivePod]]:
    return [
        (host, pod)
        for host, pods in sorted(replica.pods.items())
        for pod in pods
        if not pod.unread_bytes
    ]


def _template(replica: AssignedReplica, policy: Policy) -> Template | None:
    """Return the replica as the mutators receive it, before any edit; None if unreadable."""
    group = replica.group
    usual = headless_service(group.cluster.cluster_config.name)
    if group.spec.num_of_hosts > MAX_HOSTS:
        return None
    for _, pod in _list_host_pods(replica):
        containers = tuple(
            structs.replace(container, resize_policy=None, lifecycle=None)
            for container in pod.spec.containers or ()
        )
        claims = [
            claim
            for claim in pod.spec.resource_claims or ()
            if claim.name != names.CLAIM_COMPUTE_DOMAIN
        ]
        spec = structs.replace(
            pod.spec,
            containers=containers,
            hostname=None,
            # Another subdomain is the user's, and part of the expected addresses.
            subdomain=None if pod.spec.subdomain == usual else pod.spec.subdomain,
            affinity=None,
            scheduling_group=None,
            resource_claims=claims,
            termination_grace_period_seconds=None,
        )
        bare = structs.replace(pod, spec=spec)
        identity = HostIdentity(replica.index, 0, replica.name)
        try:
            read = read_replica(
                bare, identity, group.cluster.cluster_config, group.spec, policy=policy
            )
        except Denied:
            continue
        for slot in read.slots:
            _strip(slot)
        return read
    return None


def _strip(slot: Slot) -> None:
    """Remove all variables of a container but the one by which the user requests others."""
    variable = slot.variable(names.MEGASCALE_NUM_SLICES) if in_multi_slice(slot) else None
    slot.variables = [variable] if variable else []
    slot.env = {variable.name: 0} if variable else {}


def _variables(pod: LivePod) -> dict[str, dict[str, EnvVar]]:
    """Return the variables of a pod by container and name; kubelet uses the last of duplicates."""
    return {
        container.name: {variable.name: variable for variable in container.variables()}
        for container in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    }


def _size(name: str, value: str) -> int | str:
    return value if name == names.NNODES else value.count(",") + 1
