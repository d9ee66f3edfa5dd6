"""Why RayClusters lack pods: the forecast of admission, for pods that no event mentions yet."""

from collections import Counter
from collections.abc import Collection

from webhook.api import names
from webhook.api.namespace_limits import LIMIT_RANGE_KIND, QUOTA_KIND, read_namespaces
from webhook.cache.cluster_cache import RAYCLUSTERS, UserReads
from webhook.kubeclient.client import Api
from webhook.kubeclient.wire import path_of
from webhook.manifest.kuberay_pods import count_pods
from webhook.objects.object_cache import ObjectCache
from webhook.validation.field import at
from webhook.validation.quota_forecast import ADVICE
from webhook.validation.rule_settings import FixedNamespaces, RuleSettings
from webhook.validation.ruleset import forecast


async def read_forecasts(api: Api, namespace: str, objects: ObjectCache) -> None:
    """Read the limits of a namespace, or of all if it is empty, and set the forecasts of the
    RayClusters that lack pods. What the user may not read is left out.
    """
    if not _lacking(objects):
        return
    reads = UserReads(api)
    documents: list[object] = []
    for plural, kind in (("resourcequotas", QUOTA_KIND), ("limitranges", LIMIT_RANGE_KIND)):
        items = await reads.items(plural, path_of("/api/v1", namespace, plural))
        documents += [{**item, "kind": kind} for item in items or ()]
    for limited in read_namespaces(documents):
        path = path_of(RAYCLUSTERS.root, limited, RAYCLUSTERS.plural)
        items = await reads.items(RAYCLUSTERS.plural, path)
        documents += [{**item, "kind": names.RAYCLUSTER_KIND} for item in items or ()]
    set_forecasts(objects, documents)


def set_forecasts(objects: ObjectCache, documents: Collection[object]) -> None:
    """Set the forecasts of the RayClusters that lack pods. `documents` contain the RayClusters,
    ResourceQuotas and LimitRanges.
    """
    namespaces = read_namespaces(documents)
    if not namespaces:
        return
    numbers = Counter(
        (pod.metadata.namespace or "", labels.get(names.LABEL_CLUSTER, ""), group)
        for pod in objects.pods.all
        if (labels := pod.labels) and (group := labels.get(names.LABEL_GROUP))
    )
    settings = RuleSettings(namespaces=FixedNamespaces(namespaces, numbers))
    lacking = _lacking(objects)
    for document in documents:
        meta = at(document, "metadata")
        key = f"{at(meta, 'namespace') or 'default'}/{at(meta, 'name')}"
        if at(document, "kind") == names.RAYCLUSTER_KIND and key in lacking:
            findings = forecast(names.RAYCLUSTER_KIND, document, settings)
            objects.forecasts[key] = "; ".join(
                finding.message.removesuffix(ADVICE) for finding in findings
            )


def _lacking(objects: ObjectCache) -> set[str]:
    """Return the RayClusters of which KubeRay has to create pods, which it does not before old ones
    have ended.
    """
    return {
        f"{live.metadata.namespace}/{live.metadata.name}"
        for live in objects.clusters.all
        if not live.spec.suspend and len(objects.pods_of(live)) < count_pods(live)
    }
