"""Fake kube-apiserver for the Secret and the webhook configurations, with JSON Patch."""

import copy
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonpatch

from tests.harness.http_server import Handler, serving
from tests.harness.served import kubeconfig

Object = dict[str, Any]

SECRET = "/api/v1/namespaces/ray-webhook/secrets/ray-webhook-tls"  # noqa: S105 - a path
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/ray-webhook"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/ray-webhook"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/ray-webhook/leases"


class Registry:
    """The objects by path. A patch of another resourceVersion is refused with 409."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.requests: list[tuple[str, str]] = []
        self.admit: Callable[[Object], Object] = lambda lease: lease
        """Return what the webhooks make of a Lease that is created in a dry run."""
        self.port = 0
        self.date = ""
        """The time of the API server; empty for that of the machine."""
        self._lock = threading.Lock()
        self._number = 0
        self.put(SECRET, {"data": None})
        mutating: list[Object] = [
            {"name": name, "clientConfig": {}, "sideEffects": "NoneOnDryRun"}
            for name in ("pods", "shards")
        ]
        self.put(MUTATING, {"webhooks": mutating})
        webhooks = [{"name": name, "clientConfig": {"caBundle": "b2xk"}} for name in ("a", "b")]
        self.put(VALIDATING, {"webhooks": webhooks})

    def put(self, path: str, body: Object) -> None:
        self._number += 1
        self.objects[path] = {
            **body,
            "metadata": {**body.get("metadata", {}), "resourceVersion": str(self._number)},
        }

    def bundles(self) -> set[str]:
        webhooks = [
            webhook for path in (MUTATING, VALIDATING) for webhook in self.objects[path]["webhooks"]
        ]
        return {webhook["clientConfig"].get("caBundle", "") for webhook in webhooks}

    def answer(self, method: str, path: str, body: bytes, kind: str) -> tuple[int, Object]:
        with self._lock:
            self.requests.append((method, path))
            if (method, path) == ("POST", f"{LEASES}?dryRun=All"):
                return 201, self.admit(json.loads(body))
            found = self.objects.get(path)
            if found is None:
                return 404, {"kind": "Status", "message": f"{path} not found"}
            if method == "GET":
                return 200, found
            if kind != "application/json-patch+json":
                return 415, {"kind": "Status", "message": kind}
            patched = jsonpatch.apply_patch(copy.deepcopy(found), json.loads(body))
            if patched["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
                return 409, {"kind": "Status", "message": "the object has been modified"}
            self.put(path, patched)
            return 200, self.objects[path]

    def kubeconfig(self, directory: Path) -> Path:
        return kubeconfig(directory, self.port)


@contextmanager
def registry() -> Iterator[Registry]:
    objects = Registry()

    class Server(Handler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            kind = self.headers.get("Content-Type", "")
            status, found = objects.answer(self.command, self.path, self.read(), kind)
            self.send(status, json.dumps(found).encode(), Content_Type="application/json")

        def date_time_string(self, timestamp: float | None = None) -> str:
            return objects.date or super().date_time_string(timestamp)

    with serving(Server) as port:
        objects.port = port
        yield objects
