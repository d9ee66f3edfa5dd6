"""Views of live objects: those of `webhook.api.objects` with status and server-side metadata.

Lists of stored objects are tuples, so that the garbage collector does not traverse them.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field

from webhook.api.formats import in_line
from webhook.api.objects import (
    Bare,
    Container,
    EnvVar,
    ObjectMeta,
    Pod,
    PodSpec,
    Present,
    RayCluster,
    RayClusterSpec,
    Strings,
    WorkerGroup,
)
from webhook.api.times import seconds_of


class OwnedFields(Struct, frozen=True, gc=False):
    """The fields that a manager has set."""

    spec: Present | None = field(default=None, name="f:spec")


class Manager(Struct, rename="camel", frozen=True, gc=False):
    """One entry of `metadata.managedFields`."""

    time: str | None = None
    fields_v1: OwnedFields | None = None


class ClusterMeta(ObjectMeta, rename="camel", frozen=True, gc=False):
    """The metadata of a live RayCluster."""

    generation: int = 0
    managed_fields: list[Manager] | None = None

    @property
    def edited(self) -> float | None:
        """Time of the last change of `spec`, in seconds since the epoch."""
        times = [
            seconds_of(entry.time)
            for entry in self.managed_fields or ()
            if entry.fields_v1 is not None and entry.fields_v1.spec is not None
        ]
        return max((time for time in times if time is not None), default=None)


class Condition(Struct, rename="camel", frozen=True, gc=False):
    """One condition of a status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None

    @property
    def since(self) -> float | None:
        return seconds_of(self.last_transition_time)

    @property
    def is_true(self) -> bool:
        return self.status == "True"

    @property
    def words(self) -> str:
        """The message in one line, or else the reason."""
        return in_line(self.message) or self.reason


class LiveContainer(Container, rename="camel", frozen=True, gc=False):
    """One container or init container of a live pod, with decoded variables."""

    env: tuple[EnvVar, ...] | None = None  # type: ignore[assignment] # views are read-only

    def variables(self) -> list[EnvVar]:
        return list(self.env or ())


class ClaimSource(Struct, rename="camel", frozen=True, gc=False):
    """`persistentVolumeClaim` of a volume."""

    claim_name: str = ""


class Volume(Struct, rename="camel", frozen=True, gc=False):
    """One volume of a pod."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None


class LiveSpec(PodSpec, rename="camel", frozen=True, gc=False):
    """The part of a live pod's `spec` that is decoded."""

    containers: tuple[LiveContainer, ...] | None = None  # type: ignore[assignment] # views are read-only
    init_containers: tuple[LiveContainer, ...] | None = None  # type: ignore[assignment] # the same
    node_name: str | None = None
    volumes: tuple[Volume, ...] | None = None


class Waiting(Struct, frozen=True, gc=False):
    """`waiting` of a container state."""

    reason: str = ""
    message: str = ""


class Running(Struct, rename="camel", frozen=True, gc=False):
    """`running` of a container state."""

    started_at: str | None = None


MESSAGE_MAX: Final = 200
"""Length of the end of a termination message that is shown."""
_READ_MAX: Final = 4096
"""Bytes of a termination message that kubelet reads."""


class Terminated(Struct, rename="camel", frozen=True, gc=False):
    """`terminated` of a container state."""

    reason: str = ""
    exit_code: int = 0
    started_at: str | None = None
    finished_at: str | None = None
    message: str = ""

    @property
    def lasted(self) -> float:
        """Seconds from start to end; 0 if unknown."""
        begun, end = seconds_of(self.started_at), seconds_of(self.finished_at)
        return end - begun if begun is not None and end is not None else 0.0

    @property
    def last_line(self) -> str:
        """The end of the message, in one line."""
        return " ".join(self.message[-_READ_MAX:].split())[-MESSAGE_MAX:]


class ContainerState(Struct, frozen=True, gc=False):
    """`state` of a container, or `lastState`, the end of its previous run; one field is set."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, rename="camel", frozen=True, gc=False):
    """One entry of `status.containerStatuses` or `initContainerStatuses`."""

    name: str = ""
    state: ContainerState = field(default_factory=ContainerState)
    last_state: ContainerState | None = None
    restart_count: int = 0
    ready: bool = False
    started: bool | None = None

    @property
    def last_end(self) -> Terminated | None:
        """The end of its previous run."""
        return self.last_state.terminated if self.last_state else None


class PodStatus(Struct, rename="camel", frozen=True, gc=False):
    """The part of a pod's `status` that is decoded."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None

    @property
    def every_container(self) -> tuple[ContainerStatus, ...]:
        """The statuses of init containers, then of containers."""
        return (*(self.init_container_statuses or ()), *(self.container_statuses or ()))


class LivePod(Pod, frozen=True, gc=False):
    """A live pod."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: LiveSpec = field(default_factory=LiveSpec)
    status: PodStatus = field(default_factory=PodStatus)
    unread_bytes: int = field(default=0, name="unread_bytes")
    """The size of a pod that is too large to be read, of which only an outline is decoded."""

    @property
    def name(self) -> str:
        return self.metadata.name or ""

    @property
    def created(self) -> float | None:
        """Creation time, in seconds since the epoch."""
        return self.metadata.created

    @property
    def due(self) -> float | None:
        """End of the grace period of its deletion."""
        return seconds_of(self.metadata.deletion_timestamp)

    @property
    def is_terminating(self) -> bool:
        """Return whether the pod is being deleted: then its identity is free."""
        return self.metadata.deletion_timestamp is not None

    @property
    def ready(self) -> bool:
        """Return whether all containers are ready."""
        condition = self.condition("Ready")
        return condition is not None and condition.is_true

    @property
    def ended(self) -> bool:
        """Return whether the pod has ended: its containers never start again."""
        return self.status.phase in ("Failed", "Succeeded")

    @property
    def unscheduled(self) -> bool:
        """Return whether the pod has no node yet."""
        return self.status.phase in ("", "Pending") and not self.spec.node_name

    @property
    def ray_status(self) -> ContainerStatus | None:
        """The status of Ray's container; None before it has one."""
        ray = self.spec.ray
        statuses = self.status.container_statuses or ()
        return next((status for status in statuses if ray and status.name == ray.name), None)

    @property
    def volume_claims(self) -> list[str]:
        """The names of its PersistentVolumeClaims."""
        return [
            claim.claim_name if claim else f"{self.name}-{volume.name}"
            for volume in self.spec.volumes or ()
            if (claim := volume.persistent_volume_claim) or volume.ephemeral
        ]

    @property
    def pod_group(self) -> str:
        """Name of its PodGroup; empty if none."""
        group = self.spec.scheduling_group
        return group.pod_group_name if group else ""

    def condition(self, kind: str) -> Condition | None:
        """Return a condition of the pod's status."""
        return find(self.status.conditions, kind)


class Conditions(Struct, frozen=True, gc=False):
    """A `status` of which only the conditions are decoded."""

    conditions: tuple[Condition, ...] | None = None


class ScaleStrategy(Struct, rename="camel", frozen=True, gc=False):
    """`scaleStrategy` of a worker group."""

    workers_to_delete: list[str] | None = None


class NodeSpec(Struct, frozen=True, gc=False):
    """The part of a node's `spec` that is decoded."""

    unschedulable: bool = False


class LiveNode(Bare, frozen=True, gc=False):
    """A node."""

    spec: NodeSpec = field(default_factory=NodeSpec)
    status: Conditions = field(default_factory=Conditions)

    @property
    def readiness(self) -> Condition | None:
        """The condition `Ready`; None if the node has none yet."""
        return find(self.status.conditions, "Ready")

    @property
    def unready(self) -> Condition | None:
        """The condition `Ready`, unless it is true or the node has none yet."""
        ready = self.readiness
        return None if ready is None or ready.is_true else ready


class LiveGroup(WorkerGroup, rename="camel", frozen=True, gc=False):
    """A worker group of a live RayCluster."""

    scale_strategy: ScaleStrategy | None = None

    @property
    def workers_to_delete(self) -> frozenset[str]:
        """Return the names of the pods that KubeRay is to delete."""
        strategy = self.scale_strategy
        return frozenset((strategy and strategy.workers_to_delete) or ())


class LiveClusterSpec(RayClusterSpec, rename="camel", frozen=True, gc=False):
    """The part of a live RayCluster's `spec` that is decoded."""

    worker_group_specs: list[LiveGroup] | None = None  # type: ignore[assignment] # views are read-only


class LiveCluster(RayCluster, frozen=True, gc=False):
    """A live RayCluster."""

    metadata: ClusterMeta = field(default_factory=ClusterMeta)
    spec: LiveClusterSpec = field(default_factory=LiveClusterSpec)
    status: Conditions = field(default_factory=Conditions)


class JobStatus(Struct, rename="camel", frozen=True, gc=False):
    """The part of a RayJob's `status` that is decoded."""

    job_status: str = ""
    job_deployment_status: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    end_time: str | None = None


class JobSpec(Struct, rename="camel", frozen=True, gc=False):
    """The part of a RayJob's `spec` that is decoded."""

    submission_mode: str = ""
    cluster_selector: Present | None = None
    managed_by: str = ""


class LiveJob(Struct, frozen=True, gc=False):
    """A RayJob."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: JobSpec = field(default_factory=JobSpec)
    status: JobStatus = field(default_factory=JobStatus)


class Application(Struct, frozen=True, gc=False):
    """The status of a Serve application."""

    status: str = ""
    message: str = ""


class ServeStatus(Struct, rename="camel", frozen=True, gc=False):
    """The status of a RayService on one of its RayClusters."""

    ray_cluster_name: str = ""
    application_statuses: dict[str, Application] | None = None


class ServiceStatus(Struct, rename="camel", frozen=True, gc=False):
    """The part of a RayService's `status` that is decoded."""

    conditions: tuple[Condition, ...] | None = None
    active_service_status: ServeStatus = field(default_factory=ServeStatus)
    pending_service_status: ServeStatus = field(default_factory=ServeStatus)


class ServiceSpec(Struct, rename="camel", frozen=True, gc=False):
    """The part of a RayService's `spec` that is decoded."""

    suspend: bool = False
    managed_by: str = ""


class LiveService(Struct, frozen=True, gc=False):
    """A RayService."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ServiceSpec = field(default_factory=ServiceSpec)
    status: ServiceStatus = field(default_factory=ServiceStatus)
    unread_bytes: int = 0
    """The size of a RayService whose conditions and applications are not read."""


class LiveWorkload(Struct, frozen=True, gc=False):
    """A Workload of Kueue."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    status: Conditions = field(default_factory=Conditions)

    @property
    def reason(self) -> str:
        """Return why it has no quota or was evicted, by its conditions; empty if neither."""
        for kind, wrong in (("QuotaReserved", "False"), ("Evicted", "True")):
            condition = find(self.status.conditions, kind)
            if condition is not None and condition.status == wrong:
                return condition.words
        return ""


class GangPolicy(Struct, rename="camel", frozen=True, gc=False):
    """`gang` of a scheduling policy."""

    min_count: int = 0


class SchedulingPolicy(Struct, frozen=True, gc=False):
    """`schedulingPolicy` of a PodGroup."""

    gang: GangPolicy | None = None


class PodGroupSpec(Struct, rename="camel", frozen=True, gc=False):
    """The part of a PodGroup's `spec` that is decoded."""

    scheduling_policy: SchedulingPolicy = field(default_factory=SchedulingPolicy)


class LivePodGroup(Struct, frozen=True, gc=False):
    """A PodGroup, of any version of its API."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodGroupSpec = field(default_factory=PodGroupSpec)
    status: Conditions = field(default_factory=Conditions)

    @property
    def min_count(self) -> int:
        """Minimum number of pods that are scheduled at once; 0 without gang scheduling."""
        gang = self.spec.scheduling_policy.gang
        return gang.min_count if gang else 0

    @property
    def reason(self) -> str:
        """Why its pods are not scheduled, or are disrupted, by its conditions; empty if neither."""
        for condition in self.status.conditions or ():
            wrong = "True" if condition.type == "DisruptionTarget" else "False"
            if condition.status == wrong and condition.words:
                return condition.words
        return ""


class EventObject(Struct, frozen=True, gc=False):
    """The object of an event."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class EventSeries(Struct, rename="camel", frozen=True, gc=False):
    """`series` of an event."""

    last_observed_time: str | None = None
    count: int = 0


NOTE_MAX: Final = 1024
"""Maximum length of the message of an event of `events.k8s.io/v1`, as enforced by the API server;
those of `v1` have none.

https://github.com/kubernetes/api/blob/master/events/v1/types.go
"""


class LiveEvent(Struct, rename="camel", frozen=True, gc=False):
    """A `v1` Event; those of events.k8s.io are the same objects."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    involved_object: EventObject = field(default_factory=EventObject)
    reason: str = ""
    message: str = ""
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None
    count: int = 0

    @property
    def times(self) -> int:
        """How often it occurred."""
        return max(self.count, self.series.count if self.series else 0, 1)

    @property
    def last(self) -> float:
        """Time of the last occurrence; 0 if no time is known."""
        series = self.series.last_observed_time if self.series else None
        return self._known(series, self.last_timestamp, self.event_time) or 0.0

    @property
    def first(self) -> float | None:
        """Time of the first occurrence."""
        return self._known(self.first_timestamp, self.event_time)

    def _known(self, *times: str | None) -> float | None:
        """Return the first of the times that is set, or else the time of creation."""
        epoch_times = (
            seconds for timestamp in times if (seconds := seconds_of(timestamp)) is not None
        )
        return next(epoch_times, self.metadata.created)


class Requirement(Struct, frozen=True, gc=False):
    """One entry of a selector's `matchExpressions`."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None

    def holds(self, labels: Strings) -> bool:
        """Return whether labels fulfil the requirement.

        https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#resources-that-support-set-based-requirements
        """
        if self.operator in ("In", "NotIn"):
            return (labels.get(self.key) in (self.values or ())) == (self.operator == "In")
        return (self.key in labels) == (self.operator == "Exists")


class Selector(Struct, rename="camel", frozen=True, gc=False):
    """A label selector."""

    match_labels: Strings | None = None
    match_expressions: list[Requirement] | None = None

    @property
    def required(self) -> dict[str, list[str]]:
        """The required labels, each with its allowed values; an empty list allows any value."""
        allowed_values = {key: [value] for key, value in (self.match_labels or {}).items()}
        for requirement in self.match_expressions or ():
            if requirement.operator in ("In", "Exists"):
                allowed_values[requirement.key] = requirement.values or []
        return allowed_values

    def selects(self, labels: Strings) -> bool:
        """Return whether labels match the selector."""
        required_items = (self.match_labels or {}).items()
        return all(labels.get(key) == value for key, value in required_items) and all(
            requirement.holds(labels) for requirement in self.match_expressions or ()
        )


class WebhookRule(Struct, rename="camel", frozen=True, gc=False):
    """One entry of a webhook's `rules`."""

    api_groups: list[str] | None = None
    operations: list[str] | None = None
    resources: list[str] | None = None


class ServiceReference(Struct, frozen=True, gc=False):
    """The Service of a webhook."""

    namespace: str = ""
    name: str = ""
    path: str | None = None


class ClientConfig(Struct, rename="camel", frozen=True, gc=False):
    """How the API server reaches a webhook."""

    service: ServiceReference | None = None
    url: str | None = None
    ca_bundle: str | None = None


class Webhook(Struct, rename="camel", frozen=True, gc=False):
    """One webhook of a configuration."""

    name: str = ""
    rules: list[WebhookRule] | None = None
    client_config: ClientConfig = field(default_factory=ClientConfig)
    object_selector: Selector = field(default_factory=Selector)
    namespace_selector: Selector = field(default_factory=Selector)
    failure_policy: str = "Fail"

    def covers(self, group: str, resource: str, operation: str) -> bool:
        """Return whether the API server calls the webhook for an operation."""
        return any(
            _has(rule.api_groups, group)
            and _has(rule.resources, resource)
            and _has(rule.operations, operation)
            for rule in self.rules or ()
        )


class WebhookConfiguration(Struct, frozen=True, gc=False):
    """A MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    webhooks: list[Webhook] | None = None


def find(conditions: Iterable[Condition] | None, kind: str) -> Condition | None:
    """Return the condition of a type; None if it does not exist."""
    for condition in conditions or ():
        if condition.type == kind:
            return condition
    return None


def _has(values: list[str] | None, value: str) -> bool:
    return value in (values or ()) or "*" in (values or ())
