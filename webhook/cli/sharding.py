"""The review of a RayCluster in a file at its creation: its shard index."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import jsonpatch
from msgspec.structs import replace

from webhook.admission.reviewer import run_handler
from webhook.admission.shard_handler import ShardHandler
from webhook.api import names
from webhook.api.formats import one_line
from webhook.api.objects import Bare
from webhook.api.review import (
    ALLOWED,
    AdmissionRequest,
    Denied,
    GroupVersionKind,
    GroupVersionResource,
)
from webhook.groups.group_config import ClusterIndex, is_ignored, read_cluster_config
from webhook.groups.identity_index import Membership
from webhook.manifest.reader import Manifest
from webhook.manifest.views import as_cluster, convert
from webhook.reservation.reservations import standalone


class Sharded(NamedTuple):
    """A RayCluster as the API server would store it, the changes, and the reason of a denial."""

    manifest: Manifest
    additions: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    refused: str = ""

    @property
    def name(self) -> str:
        """The name in output."""
        meta = self.manifest.metadata
        return f"{names.RAYCLUSTER_KIND} {meta.get('name') or meta.get('generateName', '')}"

    def explained(self) -> str:
        """Return the text of `--explain`, empty if nothing was changed."""
        if self.refused:
            return f"{one_line(self.name)}: REFUSED\n"
        if not self.additions and not self.warnings:
            return ""
        annotations = self.manifest.document["metadata"]["annotations"]
        index = annotations.get(names.ANNOTATION_SHARD_INDEX)
        place = f"shard {index} of {annotations[names.ANNOTATION_SHARD_GROUP]}"
        lines = [
            f"{self.name}: {place}",
            *(f"  {f'+ {addition}':<74} # {why}" for addition, why in self.additions),
        ]
        lines += [f"  ! {warning}" for warning in self.warnings]
        return "".join(f"{one_line(line)}\n" for line in lines)


async def shard_clusters(
    clusters: Sequence[Manifest], state: Sequence[Manifest]
) -> AsyncIterator[Sharded]:
    """Yield each RayCluster after its review, one after the other; a RayCluster that exists in the
    state is updated.

    Raises ManifestError for a RayCluster of a wrong shape.
    """
    cluster_index = ClusterIndex()
    existing_clusters = {}
    for manifest in state:
        if manifest.kind == names.RAYCLUSTER_KIND:
            cluster_config = read_cluster_config(cluster := as_cluster(manifest))
            cluster_index.put(cluster_config)
            existing_clusters[cluster_config.namespace, cluster_config.name] = Bare(
                cluster.metadata
            )
    handler = ShardHandler(cluster_index, standalone(Membership(), cluster_index))
    for number, manifest in enumerate(clusters):
        meta = convert(manifest, Bare).metadata
        meta = replace(meta, namespace=meta.namespace or "default")
        old = existing_clusters.get((meta.namespace or "", meta.name or ""))
        request = AdmissionRequest(
            uid=f"file-{number}",
            kind=GroupVersionKind(names.RAY_GROUP, "v1", names.RAYCLUSTER_KIND),
            resource=GroupVersionResource(names.RAY_GROUP, "v1", "rayclusters"),
            operation="UPDATE" if old else "CREATE",
            name=meta.name,
            namespace=meta.namespace,
            object=Bare(meta),
            old_object=old,
        )
        try:
            alone = is_ignored(meta.labels)
            answer = ALLOWED if alone else await run_handler(handler, request)
        except Denied as denied:
            yield Sharded(manifest, refused=reason_of(denied))
            continue
        patch = json.loads(answer.patch or b"[]")
        stored = replace(manifest, document=jsonpatch.apply_patch(manifest.document, patch))
        yield Sharded(stored, tuple(map(_addition, patch)), answer.warnings)


def reason_of(denied: Denied) -> str:
    """Return the causes of a denial in a line."""
    return "; ".join(f"{cause.field}: {cause.message}" for cause in denied.causes)


def _addition(operation: dict[str, Any]) -> tuple[str, str]:
    """Return the value that is written into a RayCluster, and the reason."""
    annotation = f"annotation {names.ANNOTATION_SHARD_INDEX}={operation['value']}"
    return annotation, "its index in its shard group"
