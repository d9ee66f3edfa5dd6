"""Which pods fail closed, as the condition of `pods.admission.ray.io` says in CEL."""

from collections.abc import Iterator

from tests import ROOT
from tests.manifests.render import Object
from webhook.api import names
from webhook.cli.files import read_manifests
from webhook.manifest.reader import Manifest

TESTS = ROOT / "tests"
CORPUS = (
    *sorted(TESTS.glob("scenarios/*/input.yaml")),
    *sorted(TESTS.glob("scenarios/*/state.yaml")),
    *sorted((ROOT / "examples").glob("*.yaml")),
)


def needs_webhook(pod: Object) -> bool:
    """Return whether a pod is a worker that cannot run without the webhook."""
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    if labels.get(names.LABEL_NODE_TYPE) != names.NODE_TYPE_WORKER:
        return False
    if names.LABEL_REPLICA_INDEX not in labels or names.LABEL_HOST_INDEX in labels:
        return True
    resources = [
        container.get("resources") or {}
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
    ]
    return names.ANNOTATION_HOLDER in annotations or any(
        names.RESOURCE_TPU in (found.get(kind) or {})
        for found in resources
        for kind in ("requests", "limits")
    )


def corpus() -> Iterator[Manifest]:
    for manifest in read_manifests(CORPUS):
        if manifest.kind == names.RAYCLUSTER_KIND:
            yield manifest
