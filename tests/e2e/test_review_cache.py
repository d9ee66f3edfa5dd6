"""What kube-apiserver sends for the pods that KubeRay creates: the reviews of a group recur, as the
webhook takes them to.
"""

import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import sleep

import pytest

from tests.e2e.api import MUTATING_WEBHOOKS, PODS, RAY_CLUSTERS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kuberay import Operator
from tests.e2e.rays import HOSTS, scale, slices, wait_for_workers
from tests.e2e.waiting import until
from webhook.admission.codec import decode_pod
from webhook.admission.review_cache import ReviewCache
from webhook.cli.main import main

pytestmark = pytest.mark.e2e

NAME = "recorder"


@pytest.mark.parametrize("indexed", [False, True], ids=["fresh", "labelled"])
def test_the_workers_of_a_group_are_known_from_the_third_on(
    control_plane: ControlPlane, tmp_path: Path, *, indexed: bool
) -> None:
    namespace = control_plane.namespace(f"review-cache-{indexed}".lower())
    with (
        recorder(control_plane, namespace, tmp_path) as bodies,
        Operator(control_plane, multi_host_indexing=indexed),
    ):
        control_plane.api.create(RAY_CLUSTERS, slices("one", 3), namespace)
        wait_for_workers(control_plane.api, namespace, 3 * HOSTS)
        sleep(1)  # until another second
        scale(control_plane.api, "one", namespace, 5)
        pods = wait_for_workers(control_plane.api, namespace, 5 * HOSTS)
        control_plane.delete_ray_cluster("one", namespace)
    assert len({volume(pod) for pod in pods}) == 5 * HOSTS
    assert len({second(pod) for pod in pods}) > 1

    reviews = ReviewCache()
    workers = [body for body in bodies if b'"ray.io/node-type":"worker"' in body]
    assert [reviews.read(body) for body in workers] == [decode_pod(body) for body in workers]
    assert len(workers) >= 5 * HOSTS, "one for each, and more where KubeRay tries again"
    assert (reviews.misses, reviews.hits) == (2, len(workers) - 2)


def volume(pod: dict[str, dict[str, list[dict[str, str]]]]) -> str:
    """Return the name of the volume that was added for the service account."""
    return next(
        each["name"]
        for each in pod["spec"]["volumes"]
        if each["name"].startswith("kube-api-access-")
    )


def second(pod: dict[str, dict[str, list[dict[str, str]]]]) -> str:
    """Return when KubeRay created a pod."""
    return pod["metadata"]["managedFields"][0]["time"]


def is_asked(plane: ControlPlane, namespace: str, bodies: list[bytes]) -> bool:
    """Tell whether there are reviews, after the API server has admitted a pod for show, which is no
    worker.
    """
    spec = {"containers": [{"name": "any", "image": "any"}]}
    plane.api.create(PODS, {"metadata": {"name": "any"}, "spec": spec}, namespace, dryRun="All")
    return bool(bodies)


@contextmanager
def recorder(plane: ControlPlane, namespace: str, folder: Path) -> Iterator[list[bytes]]:
    """Collect the reviews of the pods that are created in a namespace, and allow them all."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = self.rfile.read(int(self.headers["Content-Length"]))
            bodies.append(review)
            answer = {"uid": json.loads(review)["request"]["uid"], "allowed": True}
            body = json.dumps(
                {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        # As its parent calls it
        def log_message(self, format: str, *values: object) -> None:  # noqa: A002
            """Say nothing."""

    assert main(["certs", "issue", "--dir", str(folder)]) == 0
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
        hook = {
            "name": "recorder.example.com",
            "clientConfig": {
                "url": f"https://127.0.0.1:{server.server_port}/",
                "caBundle": authority,
            },
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                }
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        plane.api.create(MUTATING_WEBHOOKS, {"metadata": {"name": NAME}, "webhooks": [hook]})
        try:
            until(lambda: is_asked(plane, namespace, bodies), "the API server asks")
            yield bodies
        finally:
            plane.api.delete(MUTATING_WEBHOOKS, NAME)
            server.shutdown()
