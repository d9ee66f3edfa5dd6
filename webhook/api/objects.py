"""Read-only views of the objects we meet: only the fields the code reads, decoded straight from the
bytes.

Views are trees, so the garbage collector need not look at them (`gc=False`).
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field

from webhook.api import names

Strings = dict[str, str]

_EMPTY: Strings = {}
"""Shared by all views of absent maps; views are read-only, so it stays empty."""


class OwnerReference(Struct, rename="camel", frozen=True, gc=False):
    """One entry of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Struct, rename="camel", frozen=True, gc=False):
    """The part of `metadata` that we read."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: Strings | None = None
    annotations: Strings | None = None
    owner_references: list[OwnerReference] | None = None
    deletion_timestamp: str | None = None
    resource_version: str = ""

    @property
    def controller(self) -> OwnerReference | None:
        """Return the owner that manages this object, if any."""
        for owner in self.owner_references or ():
            if owner.controller:
                return owner
        return None


class Bare(Struct, frozen=True, gc=False):
    """An object of any kind, of which only the metadata matter."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class ValueFrom(Struct, frozen=True, gc=False):
    """`valueFrom` of a variable: only known to be there."""


class EnvVar(Struct, rename="camel", frozen=True, gc=False):
    """One environment variable."""

    name: str = ""
    value: str | None = None
    value_from: ValueFrom | None = None


_variables = msgspec.json.Decoder(list[EnvVar] | None).decode

Amounts = dict[str, str | int | float]
"""Resource amounts as people write them: `4`, `"4"`, `"500m"`."""


class ResourceClaim(Struct, rename="camel", frozen=True, gc=False):
    """One entry of `spec.resourceClaims`, or of `resources.claims`, which has a name alone."""

    name: str = ""
    resource_claim_template_name: str | None = None


class Resources(Struct, frozen=True, gc=False):
    """`resources` of a container."""

    limits: Amounts | None = None
    requests: Amounts | None = None
    claims: list[ResourceClaim] | None = None

    @property
    def claimed(self) -> list[str]:
        """Return the names of the claims."""
        return [claim.name for claim in self.claims or ()]


class ResizeRule(Struct, rename="camel", frozen=True, gc=False):
    """One entry of `resizePolicy`: whether a container restarts when a resource of
    it is resized.
    """

    resource_name: str = ""
    restart_policy: str = ""


ALWAYS: Final = "Always"
"""The `restartPolicy` of an init container that is a sidecar."""


class Handler(Struct, frozen=True, gc=False):
    """`preStop` or `postStart` of a container: only known to be there."""


class Lifecycle(Struct, rename="camel", frozen=True, gc=False):
    """`lifecycle` of a container."""

    pre_stop: Handler | None = None
    post_start: Handler | None = None


class Container(Struct, rename="camel", frozen=True, gc=False):
    """One container or init container; its variables stay JSON until they are asked for.

    Variables are most of a pod's text, and the same in all pods of a group, so it pays to compare
    before reading. An init container that restarts always is a sidecar.
    """

    name: str = ""
    image: str | None = None
    env: Raw = Raw()
    resources: Resources | None = None
    restart_policy: str | None = None
    resize_policy: list[ResizeRule] | None = None
    lifecycle: Lifecycle | None = None

    def variables(self) -> list[EnvVar]:
        """Return `env`. Raises msgspec.DecodeError or UnicodeDecodeError when it is not a list of
        variables.
        """
        return _variables(self.env) or [] if bytes(self.env) else []

    def described(self) -> tuple[str, list[str]]:
        """Return the name, and the names of the variables, none where `env` cannot be read."""
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            return self.name, [variable.name for variable in self.variables()]
        return self.name, []


def ray_container(containers: Iterable[tuple[str, Collection[str]]]) -> int:
    """Return the index of Ray's container among containers, each given by its name and the names of
    its variables: sidecars may have been put before it.

    It is the one with KubeRay's start command, else the one that is named as in KubeRay's samples,
    else the first.
    """
    named = 0
    for index, (name, variables) in enumerate(containers):
        if names.RAY_START_COMMAND in variables:
            return index
        if not named and name in names.RAY_CONTAINERS:
            named = index
    return named


class PodAffinity(Struct, rename="camel", frozen=True, gc=False):
    """`spec.affinity.podAffinity` or `podAntiAffinity`; terms are opaque."""

    required_during_scheduling_ignored_during_execution: list[dict[str, Any]] | None = None


class Affinity(Struct, rename="camel", frozen=True, gc=False):
    """`spec.affinity`."""

    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None

    @property
    def together(self) -> list[dict[str, Any]]:
        """Return the required terms of `podAffinity`."""
        present = self.pod_affinity or PodAffinity()
        return present.required_during_scheduling_ignored_during_execution or []

    @property
    def apart(self) -> list[dict[str, Any]]:
        """Return the required terms of `podAntiAffinity`."""
        present = self.pod_anti_affinity or PodAffinity()
        return present.required_during_scheduling_ignored_during_execution or []


class SchedulingGroup(Struct, frozen=True, gc=False):
    """`spec.schedulingGroup`: only known to be there."""


class SchedulingGate(Struct, frozen=True, gc=False):
    """One entry of `spec.schedulingGates`."""

    name: str = ""


class PodSpec(Struct, rename="camel", frozen=True, gc=False):
    """The part of a pod's `spec` that we read."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    hostname: str | None = None
    subdomain: str | None = None
    set_hostname_as_fqdn: bool | None = field(name="setHostnameAsFQDN", default=None)
    node_selector: Strings | None = None
    affinity: Affinity | None = None
    restart_policy: str | None = None
    scheduler_name: str | None = None
    scheduling_group: SchedulingGroup | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    eviction_responders: Any = None
    resource_claims: list[ResourceClaim] | None = None
    termination_grace_period_seconds: int | None = None

    @property
    def ray(self) -> Container | None:
        """Return Ray's container, None where there is no container."""
        found = self.containers or ()
        return found[ray_container(map(Container.described, found))] if found else None


class Pod(Struct, rename="camel", frozen=True, gc=False):
    """A `v1` Pod."""

    kind: str = "Pod"
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)

    @property
    def labels(self) -> Strings:
        """Return the labels, empty when there are none."""
        return self.metadata.labels or _EMPTY

    @property
    def annotations(self) -> Strings:
        """Return the annotations, empty when there are none."""
        return self.metadata.annotations or _EMPTY

    @property
    def gates(self) -> tuple[str, ...]:
        """Return the names of the gates that keep this pod from being scheduled."""
        return tuple([gate.name for gate in self.spec.scheduling_gates or ()])

    @property
    def controller(self) -> OwnerReference | None:
        """Return the owner that manages this pod, if any."""
        return self.metadata.controller


class TemplateContainer(Struct, frozen=True, gc=False):
    """A container of a template: what says whether it takes part in a job over TPU slices."""

    env: list[EnvVar] | None = None
    resources: Resources | None = None


class TemplateSpec(Struct, rename="camel", frozen=True, gc=False):
    """The part of a pod template's `spec` that decides whether its pods can be in a gang, and in
    which job over TPU slices or which ComputeDomain they are.
    """

    priority_class_name: str = ""
    scheduler_name: str = ""
    eviction_responders: Any = None
    containers: list[TemplateContainer] | None = None
    init_containers: list[TemplateContainer] | None = None
    resource_claims: list[ResourceClaim] | None = None


class Template(Struct, frozen=True, gc=False):
    """The template of a group's pods."""

    spec: TemplateSpec = field(default_factory=TemplateSpec)


class LabelMapping(Struct, rename="camel", frozen=True, gc=False):
    """A label of the Node that KubeRay makes one of the Ray node; without `map_to`, of that name.

    KubeRay 1.8 plans it: https://github.com/ray-project/kuberay/pull/5260
    """

    node_label: str = ""
    map_to: str = ""


class WorkerGroup(Struct, rename="camel", frozen=True, gc=False):
    """One entry of `spec.workerGroupSpecs`; defaults are those of the RayCluster CRD.

    `topology` and `label_mappings` are in no CRD yet, so they may have any shape.
    """

    group_name: str = ""
    num_of_hosts: int = 1
    replicas: int | None = 0
    min_replicas: int | None = 0
    max_replicas: int | None = 2147483647
    suspend: bool | None = None
    template: Template = field(default_factory=Template)
    topology: Any = None
    label_mappings: Any = None

    @property
    def mappings(self) -> list[LabelMapping]:
        """Return the mappings of labels, at either place that KubeRay has had for them; none of
        another shape.
        """
        inner = self.topology.get("labelMappings") if isinstance(self.topology, dict) else None
        found: list[LabelMapping] = []
        for listed in (inner, self.label_mappings):
            with suppress(msgspec.ValidationError):
                found += msgspec.convert(listed or [], list[LabelMapping])
        return found

    @property
    def desired(self) -> int:
        """Return how many replicas KubeRay wants: `replicas` clamped into [min, max], 0 while
        suspended.

        KubeRay:
        https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/util.go
        (`GetWorkerGroupDesiredReplicas`).
        """
        if self.suspend:
            return 0
        low = self.min_replicas or 0
        high = 2147483647 if self.max_replicas is None else self.max_replicas
        return min(max(self.replicas or 0, low), high)


class HeadGroup(Struct, frozen=True, gc=False):
    """`spec.headGroupSpec`."""

    template: Template = field(default_factory=Template)


class RayClusterSpec(Struct, rename="camel", frozen=True, gc=False):
    """The part of a RayCluster's `spec` that seating and mutation read."""

    head_group_spec: HeadGroup = field(default_factory=HeadGroup)
    enable_in_tree_autoscaling: bool | None = None
    ray_version: str | None = None
    suspend: bool | None = None
    worker_group_specs: list[WorkerGroup] | None = None


class RayCluster(Struct, frozen=True, gc=False):
    """A `ray.io/v1` RayCluster."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: RayClusterSpec = field(default_factory=RayClusterSpec)

    @property
    def groups(self) -> list[WorkerGroup]:
        """Return the worker groups, in the order of the spec."""
        return self.spec.worker_group_specs or []
