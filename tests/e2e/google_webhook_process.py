"""The fake of Google's TPU webhook, called by a real API server."""

from contextlib import suppress
from threading import Lock
from typing import Self

from tests.e2e.api import MUTATING_WEBHOOKS, PODS, ApiError, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.stub_webhook import StubWebhook, pod_entry
from tests.e2e.waiting import until
from tests.harness import google_webhook
from webhook.api import names

NAMESPACE = "ray-system"
CONFIGURATION = "kuberay-tpu-mutating-webhook-cfg"
LABELS = {"app.kubernetes.io/name": "kuberay"}


class GoogleWebhook(StubWebhook):
    """Registered and answering on entry; taken away on exit, as far as it is still there."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane.folder, self._mutate)
        self._plane = plane
        self._lock = Lock()

    def __enter__(self) -> Self:
        super().__enter__()
        self._plane.namespace(NAMESPACE)
        self._plane.api.create(MUTATING_WEBHOOKS, configuration(self.client_config("mutate")))
        until(self.is_asked, "the API server asks it")
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ApiError):  # a story has done so
            self.unregister()
        super().__exit__()

    @property
    def asked(self) -> int:
        return len(self.reviews)

    def is_asked(self) -> bool:
        """Create a pod without chips, for show, and tell whether it was asked about it."""
        before = self.asked
        labels = {**LABELS, names.LABEL_CLUSTER: "probe", names.LABEL_GROUP: "probe"}
        spec = {"containers": [{"name": "ray", "image": "ray"}]}
        pod = {"metadata": {"name": "probe", "labels": labels}, "spec": spec}
        self._plane.api.create(PODS, pod, NAMESPACE, dryRun="All")
        return self.asked > before

    def unregister(self) -> None:
        self._plane.api.delete(MUTATING_WEBHOOKS, CONFIGURATION)

    def _mutate(self, pod: Json) -> list[Json]:
        """Return the patch of a pod, one review after the other, by the pods that exist then."""
        meta = pod["metadata"]
        keys = (names.LABEL_CLUSTER, names.LABEL_GROUP)
        selector = ",".join(f"{key}={meta['labels'][key]}" for key in keys)
        with self._lock:
            others = self._plane.api.list(PODS, meta.get("namespace"), selector)
            return google_webhook.mutate(pod, others)


def configuration(client: Json, **fields: object) -> Json:
    selector = {"matchLabels": LABELS}
    name = f"kuberay-tpu-webhook.{NAMESPACE}.svc"
    entry = pod_entry(name, client, objectSelector=selector, **fields)
    return {"metadata": {"name": CONFIGURATION}, "webhooks": [entry]}
