"""Why RayClusters lack pods: the forecast of admission, for pods that no event mentions yet."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct

from webhook.api import names
from webhook.api.namespace_limits import (
    LIMIT_RANGE_KIND,
    QUOTA_KIND,
    NamespaceLimits,
    read_namespaces,
)
from webhook.cache.cluster_cache import RAYCLUSTERS, UserReads
from webhook.kubeclient.client import Api
from webhook.kubeclient.wire import path_of
from webhook.manifest.kuberay_pods import count_pods
from webhook.objects.live_objects import LiveCluster
from webhook.objects.object_cache import ObjectCache
from webhook.validation.field import at
from webhook.validation.quota_forecast import ADVICE
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.ruleset import forecast

_LIMITING: Final = (QUOTA_KIND, LIMIT_RANGE_KIND)


class LiveNamespaces(Struct, frozen=True):
    """The limits of namespaces, and the numbers of pods by namespace, RayCluster and group."""

    namespaces: Mapping[str, NamespaceLimits]
    numbers: Mapping[tuple[str, str, str], int]

    def limits(self, namespace: str) -> NamespaceLimits | None:
        return self.namespaces.get(namespace)

    def pods(self, namespace: str, cluster: str, group: str) -> int:
        return self.numbers.get((namespace, cluster, group), 0)


async def read_forecasts(api: Api, namespace: str, objects: ObjectCache) -> None:
    """Read the limits of a namespace, or of all if it is empty, and set the forecasts of the
    RayClusters that lack pods. What the user may not read is left out.
    """
    if not any(map(_lacks_pods, objects.clusters.all, _pods_of(objects))):
        return
    reads = UserReads(api)
    documents: list[object] = []
    for plural, kind in (("resourcequotas", QUOTA_KIND), ("limitranges", LIMIT_RANGE_KIND)):
        items = await reads.items(plural, path_of("/api/v1", namespace, plural))
        documents += [{**item, "kind": kind} for item in items or ()]
    for limited in {at(document, "metadata", "namespace") for document in documents}:
        path = path_of(RAYCLUSTERS.root, limited, RAYCLUSTERS.plural)
        items = await reads.items(RAYCLUSTERS.plural, path)
        documents += [{**item, "kind": names.RAYCLUSTER_KIND} for item in items or ()]
    set_forecasts(objects, documents)


def set_forecasts(objects: ObjectCache, documents: Iterable[object]) -> None:
    """Set the forecasts of the RayClusters that lack pods. `documents` contain the RayClusters,
    ResourceQuotas and LimitRanges.
    """
    maps = [document for document in documents if isinstance(document, dict)]
    limiting = [document for document in maps if document.get("kind") in _LIMITING]
    if not limiting:
        return
    numbers = Counter(
        (pod.metadata.namespace or "", labels.get(names.LABEL_CLUSTER, ""), group)
        for pod in objects.pods.all
        if (labels := pod.labels) and (group := labels.get(names.LABEL_GROUP))
    )
    settings = RuleSettings(namespaces=LiveNamespaces(read_namespaces(limiting), numbers))
    lacking = {
        f"{live.metadata.namespace}/{live.metadata.name}"
        for live, pods in zip(objects.clusters.all, _pods_of(objects), strict=True)
        if _lacks_pods(live, pods)
    }
    for document in maps:
        meta = at(document, "metadata")
        key = f"{at(meta, 'namespace') or 'default'}/{at(meta, 'name')}"
        if document.get("kind") == names.RAYCLUSTER_KIND and key in lacking:
            findings = forecast(names.RAYCLUSTER_KIND, document, settings)
            objects.forecasts[key] = "; ".join(
                finding.message.removesuffix(ADVICE) for finding in findings
            )


def _pods_of(objects: ObjectCache) -> list[Collection[object]]:
    return [objects.pods.of(live.metadata.uid or "") for live in objects.clusters.all]


def _lacks_pods(live: LiveCluster, pods: Collection[object]) -> bool:
    """Return whether KubeRay has to create pods, which it does not before old ones have ended."""
    return not live.spec.suspend and len(pods) < count_pods(live)
