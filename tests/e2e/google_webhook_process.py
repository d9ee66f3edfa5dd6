"""The fake of Google's TPU webhook, called by a real API server."""

import base64
import json
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Self

from tests.e2e.api import MUTATING_WEBHOOKS, PODS, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import apply, removed
from tests.e2e.waiting import until
from tests.harness import google_webhook
from webhook.api import names
from webhook.cli.main import main

NAMESPACE = "ray-system"
CONFIGURATION = "kuberay-tpu-mutating-webhook-cfg"
HOST = "127.0.0.1"
NAME = "kuberay-tpu-webhook"


class GoogleWebhook:
    """Registered and answering on entry; taken away on exit, as far as it is still there."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._folder = plane.folder / "google-webhook"
        self._folder.mkdir()
        assert main(["certs", "issue", "--dir", str(self._folder)]) == 0
        self._server = _Server(plane)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "tls.crt", self._folder / "tls.key")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        self._plane.namespace(NAMESPACE)
        apply(self._plane, self._objects())
        until(self.is_asked, "the API server asks it")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with removed(self._plane, self._objects()):
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    @property
    def asked(self) -> int:
        """How many pods it was asked about."""
        return self._server.asked

    def is_asked(self) -> bool:
        """Create a pod without chips, for show, and tell whether it was asked about it."""
        before = self.asked
        self._plane.api.create(PODS, _plain(), NAMESPACE, dryRun="All")
        return self.asked > before

    def unregister(self) -> None:
        self._plane.api.delete(MUTATING_WEBHOOKS, CONFIGURATION)

    def _objects(self) -> list[Json]:
        authority = base64.b64encode((self._folder / "ca.crt").read_bytes()).decode()
        url = f"https://{HOST}:{self._server.server_port}/mutate"
        webhook = {
            "name": f"{NAME}.{NAMESPACE}.svc",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun",
            "clientConfig": {"url": url, "caBundle": authority},
            "rules": [
                {
                    "operations": ["CREATE"],
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["pods"],
                    "scope": "Namespaced",
                }
            ],
            "objectSelector": {"matchLabels": {"app.kubernetes.io/name": "kuberay"}},
        }
        return [
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": CONFIGURATION},
                "webhooks": [webhook],
            }
        ]


def _plain() -> Json:
    """A pod of KubeRay that gets nothing of it."""
    labels = {
        "app.kubernetes.io/name": "kuberay",
        names.LABEL_CLUSTER: "probe",
        names.LABEL_GROUP: "probe",
    }
    container = {"name": "ray", "image": "ray"}
    return {"metadata": {"name": "probe", "labels": labels}, "spec": {"containers": [container]}}


class _Server(ThreadingHTTPServer):
    """Answers one review after the other, by the pods that the API server has then."""

    daemon_threads = True

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__((HOST, 0), _Handler)
        self.plane = plane
        self.lock = Lock()
        self.asked = 0

    def response(self, request: Json) -> Json:
        """Return the response to a review of a pod."""
        pod, namespace = request["object"], request["namespace"]
        labels = pod["metadata"]["labels"]
        with self.lock:
            self.asked += 1
            selector = ",".join(
                f"{key}={labels[key]}" for key in (names.LABEL_CLUSTER, names.LABEL_GROUP)
            )
            others = self.plane.api.list(PODS, namespace, selector)
            patch = google_webhook.mutate(pod, others)
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        said = {"patchType": "JSONPatch", "patch": encoded} if patch else {}
        return {"uid": request["uid"], "allowed": True, **said}


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        """Answer a review."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {
            "apiVersion": review["apiVersion"],
            "kind": review["kind"],
            "response": self.server.response(review["request"]),
        }
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - the base's names
        """Say nothing."""
