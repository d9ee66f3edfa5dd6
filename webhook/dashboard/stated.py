"""A state in files, such as `kubectl get -o yaml` writes it, as what was read of a cluster."""

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, structs

from webhook.kube import names
from webhook.kube.kinds import POD_KIND
from webhook.manifest.errors import ManifestError
from webhook.manifest.reader import Manifest
from webhook.manifest.views import as_cluster, as_pod, problem_in
from webhook.status.objects import (
    LiveCluster,
    LiveEvent,
    LiveMeta,
    LivePod,
    LivePodGroup,
    Named,
    WebhookConfiguration,
)
from webhook.status.observed import Observed

T = TypeVar("T", bound=Struct)

_FIELDS: Final[dict[str, tuple[str, type[Struct]]]] = {
    "PodGroup": ("pod_groups", LivePodGroup),
    "Event": ("events", LiveEvent),
    "Service": ("services", Named),
    "Node": ("nodes", Named),
    "Namespace": ("namespaces", Named),
    "MutatingWebhookConfiguration": ("configurations", WebhookConfiguration),
}
"""The kinds beside RayClusters and pods: one that no file has counts as not looked at."""


class Stated:
    """A source that never changes."""

    synced = True
    trouble = ""

    def __init__(self, observed: Observed) -> None:
        self.unread = {
            name: "not in the files"
            for name in ("events", "services", "nodes")
            if getattr(observed, name) is None
        }


def observed_in(manifests: Sequence[Manifest]) -> Observed:
    """Return what files show. Raises ManifestError for an object whose shape is wrong."""
    pods = [each for each in manifests if each.kind == POD_KIND]
    views = [as_pod(each) for each in pods]
    clusters = []
    for manifest in manifests:
        if manifest.kind == names.RAYCLUSTER_KIND:
            meta = as_cluster(manifest, views).metadata
            found = _view(manifest, LiveCluster)
            completed = structs.replace(found.metadata, namespace=meta.namespace, uid=meta.uid)
            clusters.append(structs.replace(found, metadata=completed))
    others: dict[str, list[Struct]] = {}
    for manifest in manifests:
        held = manifest.document if isinstance(manifest.document, dict) else {}
        known = _FIELDS.get(str(held.get("kind")))
        if known is not None:
            field, kind = known
            others.setdefault(field, []).append(_identified(_view(manifest, kind), manifest))
    live = [_identified(_view(each, LivePod), each) for each in pods]
    return structs.replace(Observed(clusters, live), **others)


def _view(manifest: Manifest, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(msgspec.json.encode(manifest.document), type=kind)
    except msgspec.ValidationError as error:
        raise problem_in(manifest, str(error)) from None


def _identified(value: T, manifest: Manifest) -> T:
    """Return an object with a namespace and a uid, which a file need not have."""
    meta: LiveMeta = getattr(value, "metadata")  # noqa: B009 - of every kind here
    if not meta.name:
        raise ManifestError(manifest.file, manifest.line(("metadata",)), "the object has no name")
    namespace = meta.namespace or "default"
    uid = meta.uid or f"{manifest.document.get('kind')}/{namespace}/{meta.name}"
    return structs.replace(value, metadata=structs.replace(meta, namespace=namespace, uid=uid))
