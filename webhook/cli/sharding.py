"""The shard index that the webhook would give a RayCluster in a file, which does not have one yet."""

import json
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from math import inf
from typing import Any, NamedTuple

from msgspec.structs import replace

from webhook.admission.shards import ShardHandler
from webhook.groups.clusters import ClusterIndex, facts_of
from webhook.groups.memory import IndexMemory
from webhook.groups.shards import Shards
from webhook.kube import names
from webhook.kube.objects import Bare
from webhook.kube.review import AdmissionRequest, Denied, GroupVersionKind, GroupVersionResource
from webhook.manifest.reader import Manifest
from webhook.manifest.views import as_cluster


class Sharded(NamedTuple):
    """A RayCluster as the API server would store it, what it was told, and why it is refused."""

    manifest: Manifest
    told: str = ""
    warnings: tuple[str, ...] = ()
    refused: str = ""

    @property
    def name(self) -> str:
        """What to call it."""
        meta = self.manifest.document.get("metadata") or {}
        return f"{names.RAYCLUSTER_KIND} {meta.get('name') or meta.get('generateName', '')}"

    def explained(self) -> str:
        """Return what `--explain` says of it: nothing, when it was told nothing."""
        if self.refused:
            return f"{self.name}: REFUSED: {self.refused}\n"
        if not self.told:
            return ""
        annotations = self.manifest.document["metadata"]["annotations"]
        group = annotations[names.ANNOTATION_SHARD_GROUP]
        added = f"+ annotation {names.ANNOTATION_SHARD_INDEX}={self.told}"
        lines = [f"{self.name}: shard {self.told} of {group}", f"  {added:<74} # its place in shard group {group}"]
        return "\n".join([*lines, *(f"  ! {text}" for text in self.warnings)]) + "\n"


async def sharded(clusters: Sequence[Manifest], state: Sequence[Manifest]) -> AsyncIterator[Sharded]:
    """Yield each RayCluster as it comes out of its review, one after the other; one of the state's name is an update of it.

    Raises ManifestError when the shape of one is wrong.
    """
    known = ClusterIndex()
    there = {}
    for manifest in state:
        if manifest.kind == names.RAYCLUSTER_KIND:
            facts = facts_of(cluster := as_cluster(manifest))
            known.put(facts)
            there[facts.namespace, facts.name] = Bare(cluster.metadata)
    handler = ShardHandler(IndexMemory(Shards(known, inf)))
    for manifest in clusters:
        meta = as_cluster(manifest).metadata
        old = there.get((meta.namespace or "", meta.name or ""))
        request = AdmissionRequest(
            uid="file",
            kind=GroupVersionKind(names.RAY_GROUP, "v1", names.RAYCLUSTER_KIND),
            resource=GroupVersionResource(names.RAY_GROUP, "v1", "rayclusters"),
            operation="UPDATE" if old else "CREATE",
            name=meta.name,
            namespace=meta.namespace,
            object=Bare(meta),
            old_object=old,
        )
        try:
            answer = await handler(request, 0.0)
        except Denied as denied:
            yield Sharded(manifest, refused="; ".join(f"{cause.field}: {cause.message}" for cause in denied.causes))
            continue
        if answer.patch is None:
            yield Sharded(manifest, warnings=answer.warnings)
            continue
        (operation,) = json.loads(b64decode(answer.patch))
        index = operation["value"]
        stored = replace(manifest, document=_with(manifest.document, index))
        yield Sharded(stored, index, answer.warnings)


def _with(document: dict[str, Any], index: str) -> dict[str, Any]:
    meta = document["metadata"]
    return {**document, "metadata": {**meta, "annotations": {**meta["annotations"], names.ANNOTATION_SHARD_INDEX: index}}}
