"""Transforms of objects before they are stored: equal parts become one object, and fields that no
diagnosis reads are left out.

The pods of a worker group differ in a few labels and variables. Objects are read-only, so that they
can share the rest.
"""

from collections.abc import Iterable
from functools import partial
from itertools import islice
from sys import intern
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import astuple, replace

from webhook.api import names
from webhook.api.formats import in_line
from webhook.api.objects import Bare, ObjectMeta, Strings
from webhook.api.tenant_cache import TenantCache
from webhook.objects.live_objects import (
    MESSAGE_MAX,
    NOTE_MAX,
    Application,
    Condition,
    Conditions,
    ContainerState,
    ContainerStatus,
    EventObject,
    LiveContainer,
    LiveEvent,
    LiveJob,
    LiveNode,
    LivePod,
    LiveService,
    ServeStatus,
    find,
)

T = TypeVar("T")

_PART_SIZE: Final = 6
"""Bytes of a part in memory, with its key, to those of its JSON text."""

_ENTRIES_MAX: Final = 1000
"""Entries of a list that are stored and shared; objects in use have fewer than a hundred."""

_NAME_MAX: Final = 253
"""Characters of a name."""

_encode: Final = msgspec.json.Encoder().encode
_PARTS_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of all parts; pods with other parts share less memory."""


class PodParts:
    """The parts of stored pods, by namespace."""

    def __init__(self) -> None:
        self._parts: TenantCache[tuple[str, bytes], Any] = TenantCache(_PARTS_BYTES_MAX)

    def compact_pod(self, pod: LivePod) -> LivePod:
        """Return an equal pod that takes less memory."""
        meta, spec, status = pod.metadata, pod.spec, pod.status
        share = partial(self._share, meta.namespace or "")
        return replace(
            pod,
            metadata=replace(
                meta,
                labels=_strings(meta.labels),
                namespace=meta.namespace and intern(meta.namespace),
                generate_name=meta.generate_name and intern(meta.generate_name),
                creation_timestamp=meta.creation_timestamp and intern(meta.creation_timestamp),
                owner_references=share(meta.owner_references),
            ),
            spec=replace(
                spec,
                containers=self._containers(meta.namespace or "", spec.containers),
                init_containers=self._containers(meta.namespace or "", spec.init_containers),
                node_selector=share(spec.node_selector),
                affinity=share(spec.affinity),
                volumes=share(spec.volumes),
            ),
            status=replace(
                status,
                conditions=_conditions(status.conditions),
                container_statuses=_cut(status.container_statuses),
                init_container_statuses=_cut(status.init_container_statuses),
            ),
        )

    def _containers(
        self, namespace: str, values: Iterable[LiveContainer] | None
    ) -> tuple[LiveContainer, ...] | None:
        if values is None:
            return None
        containers = []
        for container in values:
            shell = self._share(namespace, replace(container, env=None))
            env = (
                None
                if container.env is None
                else tuple(self._share(namespace, entry) for entry in container.env)
            )
            containers.append(replace(shell, env=env))
        return tuple(containers)

    def _share(self, namespace: str, value: T) -> T:
        """Return the object of an equal value in the namespace, if there is one."""
        if value is None:
            return value
        encoded = _encode(value)
        key = type(value).__name__, encoded  # no types, which the garbage collector would traverse
        shared: T | None = self._parts.get(namespace, key)
        if shared is None:
            self._parts.put(namespace, key, value, _PART_SIZE * len(encoded))
            return value
        return shared


def compact_node(node: LiveNode) -> LiveNode:
    """Return a node without its annotations, which are not used, and with one condition."""
    meta = replace(node.metadata, labels=_strings(node.metadata.labels), annotations=None)
    ready = find(node.status.conditions, "Ready")
    status = Conditions(_conditions((ready,)) if ready else None)
    return LiveNode(metadata=meta, spec=node.spec, status=status)


def compact_event(event: LiveEvent) -> LiveEvent:
    """Return an event with the texts that those of Kubernetes have, which are short."""
    about, meta = event.involved_object, event.metadata
    return replace(
        event,
        metadata=replace(_identifying(meta), creation_timestamp=meta.creation_timestamp),
        involved_object=EventObject(
            about.kind[:_NAME_MAX], about.name[:_NAME_MAX], about.uid[:_NAME_MAX]
        ),
        message=event.message[:NOTE_MAX],
    )


def compact_object(value: Bare) -> Bare:
    """Return an object with its name only."""
    return Bare(_identifying(value.metadata))


def compact_job(job: LiveJob) -> LiveJob:
    """Return a RayJob with the part of its message that is shown."""
    status = replace(job.status, message=in_line(job.status.message))
    return LiveJob(_identify_owner(job.metadata), job.spec, status)


def compact_service(service: LiveService) -> LiveService:
    """Return a RayService with the parts of messages that are shown."""
    status = service.status
    return LiveService(
        _identify_owner(service.metadata),
        service.spec,
        replace(
            status,
            conditions=_conditions(status.conditions),
            active_service_status=_cut_applications(status.active_service_status),
            pending_service_status=_cut_applications(status.pending_service_status),
        ),
        service.unread_bytes,
    )


def _identifying(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        name=meta.name,
        namespace=meta.namespace and intern(meta.namespace),
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def _identify_owner(meta: ObjectMeta) -> ObjectMeta:
    """Return the metadata of an owner of RayClusters: with its times and its queue of Kueue."""
    queue = (meta.labels or {}).get(names.LABEL_KUEUE_QUEUE)
    return replace(
        _identifying(meta),
        labels=None if queue is None else {names.LABEL_KUEUE_QUEUE: queue},
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
    )


def _cut_applications(status: ServeStatus) -> ServeStatus:
    statuses = status.application_statuses
    return replace(
        status,
        application_statuses=statuses
        and {
            name: Application(application.status, in_line(application.message))
            for name, application in islice(statuses.items(), _ENTRIES_MAX)
        },
    )


def _cut(values: tuple[ContainerStatus, ...] | None) -> tuple[ContainerStatus, ...] | None:
    """Return statuses of containers with the part of termination messages that is shown."""
    ends = [
        end for status in values or () for end in (status.state.terminated, status.last_end) if end
    ]
    if not any(len(end.message) > MESSAGE_MAX for end in ends):
        return values
    return values and tuple(
        replace(
            status,
            state=_cut_state(status.state),
            last_state=status.last_state and _cut_state(status.last_state),
        )
        for status in values
    )


def _cut_state(state: ContainerState) -> ContainerState:
    end = state.terminated
    return ContainerState(terminated=replace(end, message=end.last_line)) if end else state


def _strings(values: Strings | None) -> Strings | None:
    if not values or len(values) > _ENTRIES_MAX:  # pods of a group have a dozen
        return values
    return {intern(key): intern(value) for key, value in values.items()}


def _conditions(values: tuple[Condition, ...] | None) -> tuple[Condition, ...] | None:
    return values and tuple(
        Condition(*(field_value and intern(field_value) for field_value in astuple(condition)))
        for condition in values[:_ENTRIES_MAX]
    )
