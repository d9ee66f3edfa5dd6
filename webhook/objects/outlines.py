"""The outlines of live objects that are too large to be read whole."""

from msgspec import Struct, field

from webhook.api.objects import NamedOutline, SchedulingGroup
from webhook.groups.identity_labels import WorkerPodOutline, WorkerStatus
from webhook.objects.live_objects import JobStatus


class _PodStatusOutline(WorkerStatus, frozen=True, gc=False):
    phase: str = ""


class _PodSpecOutline(Struct, rename="camel", frozen=True, omit_defaults=True):
    node_name: str | None = None
    scheduling_group: SchedulingGroup | None = None


class LivePodOutline(WorkerPodOutline, frozen=True):
    """The fields of a Ray pod that are read however large it is: its identity, node, PodGroup,
    phase and readiness.
    """

    spec: _PodSpecOutline = field(default_factory=_PodSpecOutline)
    status: _PodStatusOutline | None = None


class JobOutline(NamedOutline, frozen=True):
    """The fields of a RayJob that are read however large it is."""

    status: JobStatus = field(default_factory=JobStatus)


class _ServeStatusOutline(Struct, rename="camel", frozen=True):
    ray_cluster_name: str = ""


class _ServiceStatusOutline(Struct, rename="camel", frozen=True):
    active_service_status: _ServeStatusOutline = field(default_factory=_ServeStatusOutline)
    pending_service_status: _ServeStatusOutline = field(default_factory=_ServeStatusOutline)


class ServiceOutline(NamedOutline, frozen=True):
    """The fields of a RayService that are read however large it is: its RayClusters."""

    status: _ServiceStatusOutline = field(default_factory=_ServiceStatusOutline)
