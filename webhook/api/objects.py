"""Read-only views of API objects: only the fields that the code reads, decoded from the bytes.

Views are trees without cycles, so the garbage collector skips them (`gc=False`).
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field

from webhook.api import names
from webhook.api.times import seconds_of

Strings = dict[str, str]


def map_of(value: object) -> dict[str, Any]:
    """Return a value of a decoded object that is a map; an empty map for any other value."""
    return value if isinstance(value, dict) else {}


_EMPTY: Strings = {}
"""Shared by all views of absent maps; never modified."""


class OwnerReference(Struct, rename="camel", frozen=True, gc=False):
    """An entry of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Struct, rename="camel", frozen=True, gc=False):
    """The fields of `metadata` that are read."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: Strings | None = None
    annotations: Strings | None = None
    owner_references: list[OwnerReference] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None
    resource_version: str = ""

    @property
    def created(self) -> float | None:
        """Creation time, in seconds since the epoch."""
        return seconds_of(self.creation_timestamp)

    @property
    def deleted(self) -> float | None:
        """Time of the deletion request: `deletionTimestamp` minus the grace period. None if the
        grace period, which may be any number, reaches back before the creation.
        """
        due, grace = seconds_of(self.deletion_timestamp), self.deletion_grace_period_seconds or 0
        if due is None or not 0 <= grace <= due - (self.created or 0.0):
            return None
        return due - grace

    @property
    def controller(self) -> OwnerReference | None:
        """Return the owner reference with `controller: true`, or None."""
        for owner in self.owner_references or ():
            if owner.controller:
                return owner
        return None


class Bare(Struct, frozen=True, gc=False):
    """An object of any kind, of which only the metadata is read."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    def label(self, key: str) -> str | None:
        return (self.metadata.labels or {}).get(key)


class Present(Struct, frozen=True, gc=False):
    """A map of which only the presence is read, such as `valueFrom` of a variable."""


class EnvVar(Struct, rename="camel", frozen=True, gc=False):
    """An environment variable."""

    name: str = ""
    value: str | None = None
    value_from: Present | None = None


_variables = msgspec.json.Decoder(list[EnvVar] | None).decode

Amounts = dict[str, str | int | float]
"""Resource amounts as users write them: `4`, `"4"`, `"500m"`."""


class ResourceClaim(Struct, rename="camel", frozen=True, gc=False):
    """An entry of `spec.resourceClaims`, or of `resources.claims`, which has only a name."""

    name: str = ""
    resource_claim_template_name: str | None = None


class Resources(Struct, frozen=True, gc=False):
    """`resources` of a container."""

    limits: Amounts | None = None
    requests: Amounts | None = None
    claims: list[ResourceClaim] | None = None

    @property
    def claimed(self) -> list[str]:
        return [claim.name for claim in self.claims or ()]


class ResizeRule(Struct, rename="camel", frozen=True, gc=False):
    """An entry of `resizePolicy`: whether a container restarts when a resource is resized."""

    resource_name: str = ""
    restart_policy: str = ""


ALWAYS: Final = "Always"
"""The `restartPolicy` of an init container that is a sidecar."""


class Lifecycle(Struct, rename="camel", frozen=True, gc=False):
    """`lifecycle` of a container."""

    pre_stop: Present | None = None
    post_start: Present | None = None


class Container(Struct, rename="camel", frozen=True, gc=False):
    """A container or init container; its variables remain JSON until they are read.

    Variables are most of a pod's text, and the same in all pods of a group, so comparing bytes
    before decoding saves time. An init container with `restartPolicy: Always` is a sidecar.
    """

    name: str = ""
    image: str | None = None
    env: Raw = Raw()
    resources: Resources | None = None
    restart_policy: str | None = None
    resize_policy: list[ResizeRule] | None = None
    lifecycle: Lifecycle | None = None

    def variables(self) -> list[EnvVar]:
        """Return `env`. Raises msgspec.DecodeError or UnicodeDecodeError if it is not a list of
        variables.
        """
        return _variables(self.env) or [] if bytes(self.env) else []

    def described(self) -> tuple[str, list[str]]:
        """Return the name, and the names of the variables; none if `env` cannot be decoded."""
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            return self.name, [variable.name for variable in self.variables()]
        return self.name, []


def ray_container(containers: Iterable[tuple[str, Collection[str]]]) -> int:
    """Return the index of Ray's container, given the name and variable names of each container;
    sidecars may precede it.

    Ray's container has KubeRay's start command; otherwise, it is the first with a name from
    KubeRay's samples; otherwise, the first container.
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
        present = self.pod_affinity or PodAffinity()
        return present.required_during_scheduling_ignored_during_execution or []

    @property
    def apart(self) -> list[dict[str, Any]]:
        present = self.pod_anti_affinity or PodAffinity()
        return present.required_during_scheduling_ignored_during_execution or []


class SchedulingGroup(Struct, rename="camel", frozen=True, gc=False):
    """`spec.schedulingGroup`."""

    pod_group_name: str = ""


class SchedulingGate(Struct, frozen=True, gc=False):
    """An entry of `spec.schedulingGates`."""

    name: str = ""


class PodSpec(Struct, rename="camel", frozen=True, gc=False):
    """The fields of a pod's `spec` that are read."""

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
        containers = self.containers or ()
        return (
            containers[ray_container(map(Container.described, containers))] if containers else None
        )


class Pod(Struct, rename="camel", frozen=True, gc=False):
    """A `v1` Pod."""

    kind: str = "Pod"
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)

    @property
    def labels(self) -> Strings:
        return self.metadata.labels or _EMPTY

    @property
    def annotations(self) -> Strings:
        return self.metadata.annotations or _EMPTY

    @property
    def gates(self) -> tuple[str, ...]:
        return tuple([gate.name for gate in self.spec.scheduling_gates or ()])

    @property
    def controller(self) -> OwnerReference | None:
        return self.metadata.controller


class TemplateContainer(Struct, frozen=True, gc=False):
    """A container of a template: the fields that decide whether it takes part in a multi-slice TPU
    job.
    """

    env: list[EnvVar] | None = None
    resources: Resources | None = None


class TemplateSpec(Struct, rename="camel", frozen=True, gc=False):
    """The fields of a pod template's `spec` that decide whether its pods can be in a pod group, in
    which multi-slice TPU job and in which ComputeDomain.
    """

    priority_class_name: str = ""
    scheduler_name: str = ""
    eviction_responders: Any = None
    containers: list[TemplateContainer] | None = None
    init_containers: list[TemplateContainer] | None = None
    resource_claims: list[ResourceClaim] | None = None


class Template(Struct, frozen=True, gc=False):
    """The pod template of a group."""

    spec: TemplateSpec = field(default_factory=TemplateSpec)


class WorkerGroup(Struct, rename="camel", frozen=True, gc=False):
    """An entry of `spec.workerGroupSpecs`, with the defaults of the RayCluster CRD."""

    group_name: str = ""
    num_of_hosts: int = 1
    replicas: int | None = 0
    min_replicas: int | None = 0
    max_replicas: int | None = 2147483647
    suspend: bool | None = None
    template: Template = field(default_factory=Template)

    @property
    def desired(self) -> int:
        """Return the desired replicas: `replicas` clamped into [min, max], 0 while suspended.

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


class FaultTolerance(Struct, frozen=True, gc=False):
    """`spec.gcsFaultToleranceOptions`, of which only the presence is read."""


class RayClusterSpec(Struct, rename="camel", frozen=True, gc=False):
    """The fields of a RayCluster's `spec` that identity assignment and mutation read."""

    head_group_spec: HeadGroup = field(default_factory=HeadGroup)
    enable_in_tree_autoscaling: bool | None = None
    ray_version: str | None = None
    suspend: bool | None = None
    gcs_fault_tolerance_options: FaultTolerance | None = None
    worker_group_specs: list[WorkerGroup] | None = None


WAIT_FOR_HEAD_AMOUNTS: Final = {"cpu": "200m", "memory": "256Mi"}
"""The requests and limits that KubeRay gives the container that waits for the head.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
(`DefaultWorkerPodTemplate`)
"""
WAIT_FOR_HEAD_MOST: Final = {"cpu": "900m", "memory": "1Gi"}
"""The maximum to which this webhook raises them. The static CPU manager pins whole CPUs of a
Guaranteed pod, also those of init containers, so a whole CPU could have a node refuse the pod.
"""

RAYCLUSTER_BYTES_MAX: Final = 384 * 1024
"""Of a RayCluster that is read: the event loop decodes and reads one of that size in about 5 ms. A
worker group with its template has 1 to 3 KiB.
"""
GROUPS_MAX: Final = 1000
"""Maximum worker groups of a RayCluster. Further ones are not read, which bounds the time that a
hostile spec can take.
"""
RAYCLUSTER_WRITTEN_BYTES_MAX: Final = 320 * 1024
"""Of what users write of a RayCluster. The rest is for its status and managed fields."""


class RayCluster(Struct, frozen=True, gc=False):
    """A `ray.io/v1` RayCluster. Of one larger than RAYCLUSTER_BYTES_MAX, only an outline is read:
    `unread_bytes` is its size then.
    """

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: RayClusterSpec = field(default_factory=RayClusterSpec)
    unread_bytes: int = 0

    @property
    def groups(self) -> list[WorkerGroup]:
        return self.spec.worker_group_specs or []


class _OutlineLabels(Struct, frozen=True, omit_defaults=True):
    ignore: str = field(default="", name=names.LABEL_IGNORE)


class _OutlineAnnotations(Struct, frozen=True, omit_defaults=True):
    shard_group: str = field(default="", name=names.ANNOTATION_SHARD_GROUP)
    shard_index: str = field(default="", name=names.ANNOTATION_SHARD_INDEX)
    shard_count: str = field(default="", name=names.ANNOTATION_SHARD_COUNT)


class OutlineMeta(Struct, rename="camel", frozen=True, omit_defaults=True):
    """The metadata of any object that is read however large it is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class Outline(Struct, frozen=True):
    """The fields of an object that are read however large it is."""

    def values(self) -> dict[str, Any]:
        """Return them as in JSON."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values


OBJECT_BYTES_MAX: Final = 256 * 1024
"""Of an object of any kind that is read whole, unless its kind has another maximum: the event loop
decodes and stores one of that size within 5 ms.
"""


class NamedOutline(Outline, frozen=True):
    """The outline of an object of which only the existence counts."""

    metadata: OutlineMeta = field(default_factory=OutlineMeta)


class _RayClusterOutlineMeta(OutlineMeta, rename="camel", frozen=True, omit_defaults=True):
    labels: _OutlineLabels | None = None
    annotations: _OutlineAnnotations | None = None


class RayClusterOutline(Outline, frozen=True):
    """The fields of a RayCluster that are read however large it is: its identity, its exemption,
    and its shard index, which no other RayCluster may get.
    """

    metadata: _RayClusterOutlineMeta
