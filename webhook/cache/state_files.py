"""Cluster state from files, such as the output of `kubectl get -o yaml`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from webhook.api import names
from webhook.api.names import POD_KIND
from webhook.api.objects import Bare, Container, EnvVar, ObjectMeta
from webhook.api.times import seconds_of, text_of
from webhook.diagnostics.document import API_VERSION
from webhook.explain.variables import list_variables
from webhook.manifest.reader import Manifest
from webhook.manifest.views import NAMELESS, as_cluster, as_pod, convert, problem_in
from webhook.objects.live_objects import (
    LiveCluster,
    LiveEvent,
    LiveJob,
    LiveNode,
    LivePod,
    LivePodGroup,
    LiveService,
    LiveWorkload,
    WebhookConfiguration,
)
from webhook.objects.object_cache import EVENTS, ObjectCache

T = TypeVar("T", bound=Struct)

_FIELDS: Final[dict[str, tuple[str, type[Struct]]]] = {
    "PodGroup": ("pod_groups", LivePodGroup),
    "Event": ("events", LiveEvent),
    "Service": ("services", Bare),
    "Node": ("nodes", LiveNode),
    "Namespace": ("namespaces", Bare),
    "Workload": ("workloads", LiveWorkload),
    names.RAYJOB_KIND: ("ray_jobs", LiveJob),
    names.RAYSERVICE_KIND: ("ray_services", LiveService),
    "MutatingWebhookConfiguration": ("configurations", WebhookConfiguration),
}
"""The kinds besides RayClusters and pods; a kind that no file contains counts as not read."""

_VERSIONS: Final = {
    names.RAYCLUSTER_KIND: f"{names.RAY_GROUP}/v1",
    names.RAYJOB_KIND: f"{names.RAY_GROUP}/v1",
    names.RAYSERVICE_KIND: f"{names.RAY_GROUP}/v1",
    "Workload": f"{names.KUEUE_GROUP}/v1beta2",
    "PodGroup": f"{names.SCHEDULING_GROUP}/v1beta1",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
}
"""The API versions of kinds outside the core API."""


_NO_OWNERS: Final[Mapping[tuple[str, str | None, str], str]] = {}
STATE_KIND: Final = "RayState"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which `kubectl apply` stores the whole manifest, with values of variables."""


class _Collected(Struct, frozen=True):
    """Metadata of a file of `status -o state`: the time of the reads in RFC 3339, the kinds that
    were read, and why the others could not be read.
    """

    now: str
    read: list[str] = []
    unread: dict[str, str] = {}


class Stated:
    """A source without changes. `unread` kinds have the reason that the files contain."""

    synced = True
    problem = ""

    def __init__(self, objects: ObjectCache, unread: Mapping[str, str]) -> None:
        self.unread = {
            name: "not in the files"
            for name in ("events", "services", "nodes")
            if not getattr(objects, name).known
        } | dict(unread)


def objects_in(
    manifests: Sequence[Manifest], namespace: str = "", *, ignoring: bool = True
) -> ObjectCache:
    """Return the objects in files; Ray objects and pods of one namespace, if it is given. Raises
    ManifestError for an object of a wrong shape.
    """
    objects = ObjectCache(ignoring=ignoring)
    pods = [manifest for manifest in manifests if manifest.kind == POD_KIND]
    views = [as_pod(pod_manifest) for pod_manifest in pods]
    clusters = []
    for manifest in manifests:
        if manifest.kind == names.RAYCLUSTER_KIND:
            meta = as_cluster(manifest, views).metadata
            live_cluster = _complete_metadata(convert(manifest, LiveCluster), manifest)
            completed = structs.replace(
                live_cluster.metadata, namespace=meta.namespace, uid=meta.uid
            )
            clusters.append(structs.replace(live_cluster, metadata=completed))
    live = [
        _complete_metadata(convert(pod_manifest, LivePod), pod_manifest) for pod_manifest in pods
    ]
    objects.clusters.load(cluster for cluster in clusters if _within(cluster.metadata, namespace))
    objects.pods.load(pod for pod in live if _within(pod.metadata, namespace))
    owners = {
        (owner.kind, cluster.metadata.namespace, owner.name): owner.uid
        for cluster in clusters
        for owner in cluster.metadata.owner_references or ()
    }
    values_by_field: dict[str, list[Any]] = {}
    for manifest in manifests:
        if (field_and_kind := _FIELDS.get(_kind_of(manifest))) is not None:
            field, kind = field_and_kind
            value = _complete_metadata(convert(manifest, kind), manifest, owners)
            values = values_by_field.setdefault(field, [])
            if _is_needed(value, namespace):
                values.append(value)
    read = {field for collected in _parse_states(manifests) for field in collected.read}
    for field, _ in _FIELDS.values():
        getattr(objects, field).load(values_by_field.get(field, [] if field in read else None))
    return objects


def _is_needed(value: Struct, namespace: str) -> bool:
    if isinstance(value, LiveJob | LiveService):
        return _within(value.metadata, namespace)
    return not isinstance(value, LiveEvent) or value.reason in EVENTS


def _within(meta: ObjectMeta, namespace: str) -> bool:
    return namespace in ("", meta.namespace)


def is_of_state(manifest: Manifest) -> bool:
    """Return whether an object is of a kind that is read from files."""
    if manifest.kind in (names.RAYCLUSTER_KIND, POD_KIND):
        return True
    return _kind_of(manifest) in (STATE_KIND, *_FIELDS)


def _kind_of(manifest: Manifest) -> str:
    """Return the kind of an object; empty for a Workload that is not Kueue's."""
    document = manifest.document if isinstance(manifest.document, dict) else {}
    kind, version = str(document.get("kind", "")), str(document.get("apiVersion"))
    return kind if kind != "Workload" or version.startswith(names.KUEUE_PREFIX) else ""


def read_state_metadata(manifests: Sequence[Manifest]) -> tuple[float | None, dict[str, str]]:
    """Return the time at which `status -o state` wrote the files, None for other files, and the
    kinds that could not be read, each with the reason. Raises ManifestError.
    """
    states = _parse_states(manifests)
    times = [time for state in states if (time := seconds_of(state.now)) is not None]
    return max(times, default=None), {
        name: why for state in states for name, why in state.unread.items()
    }


def state_of(objects: ObjectCache, now: float, unread: Mapping[str, str]) -> dict[str, Any]:
    """Return the state as a List of objects for `objects_in`, with the fields that are read. Of
    container variables, only values of those that the webhook injects or reads are included.
    """
    parts = {field: (kind, getattr(objects, field)) for kind, (field, _) in _FIELDS.items()}
    read = [field for field, (_, table) in parts.items() if table.known]
    state = {
        "apiVersion": API_VERSION,
        "kind": STATE_KIND,
        "metadata": {"name": "state"},
        "now": text_of(now),
        "read": read,
        "unread": dict(unread),
    }
    variable_names = frozenset((*list_variables(objects.profiles), names.MEGASCALE_NUM_SLICES))
    items = [
        {"apiVersion": _VERSIONS.get(kind, "v1"), "kind": kind}
        | _plain(live_object, variable_names)
        for kind, table in (
            (names.RAYCLUSTER_KIND, objects.clusters),
            (POD_KIND, objects.pods),
            *parts.values(),
        )
        for live_object in table.all
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [state, *items]}


def _plain(value: Any, kept: frozenset[str]) -> Any:  # noqa: ANN401 - JSON has values of every type
    """Return a value as JSON, without nulls and values of variables that are not `kept`."""
    if isinstance(value, Struct):
        fields = {field.encode_name: getattr(value, field.name) for field in structs.fields(value)}
        if "env" in fields:
            fields["env"] = _variables(fields["env"], kept)
        return {key: _plain(item, kept) for key, item in fields.items() if item is not None}
    if isinstance(value, dict):
        return {key: _plain(item, kept) for key, item in value.items() if key != _LAST_APPLIED}
    return [_plain(item, kept) for item in value] if isinstance(value, list | tuple) else value


def _variables(env: Raw | list[EnvVar] | None, kept: frozenset[str]) -> list[EnvVar] | None:
    if isinstance(env, Raw):
        try:
            env = Container(env=env).variables()
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
    return [
        variable if variable.name in kept else structs.replace(variable, value=None)
        for variable in env or ()
    ]


def _parse_states(manifests: Sequence[Manifest]) -> list[_Collected]:
    return [
        convert(manifest, _Collected) for manifest in manifests if _kind_of(manifest) == STATE_KIND
    ]


def _complete_metadata(
    value: T, manifest: Manifest, owners: Mapping[tuple[str, str | None, str], str] = _NO_OWNERS
) -> T:
    """Return an object with a namespace and a uid, which an object in a file may lack. `owners` are
    uids of owners of RayClusters, by kind, namespace and name.
    """
    meta: ObjectMeta = getattr(value, "metadata")  # noqa: B009 - of every kind here
    if not meta.name:
        raise problem_in(manifest, NAMELESS, ["metadata"])
    namespace, kind = meta.namespace or "default", str(manifest.document.get("kind"))
    # Owners and tables refer to objects by uid.
    named = owners.get((kind, namespace, meta.name)) or f"{kind}/{namespace}/{meta.name}"
    completed = structs.replace(meta, namespace=namespace, uid=meta.uid or named)
    return structs.replace(value, metadata=completed)
