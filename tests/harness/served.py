"""A scene behind a socket: a minimal API server for the commands that read a cluster."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from urllib.parse import parse_qs, urlsplit

from tests.builders import NAMESPACE
from tests.harness.http_server import Handler
from tests.harness.scenes import Object, Scene


class Server(ThreadingHTTPServer):
    """Serves a scene. `answers` are other bodies by path, `refused` paths that are answered with
    403, `busy` how often a path is answered with 429 first, `withheld` resources that no one has
    rights to, anywhere or `in NAMESPACE`.
    """

    daemon_threads = False  # each is joined in the end, so none outlives its test

    def __init__(self, scene: Scene) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scene = scene
        self.refused: set[str] = set()
        self.withheld: set[str] = set()
        self.busy: dict[str, int] = {}
        self.answers: dict[str, Object] = {}
        self.posted: list[tuple[str, Object]] = []
        self.denials: dict[str, Object] = {}
        self.watches: list[tuple[str, Queue[Object | None]]] = []
        self.ended = False

    def tell(self, path: str, kind: str, found: Object) -> None:
        event = {"type": kind, "object": identified(found)}
        for watched, queue in self.watches:
            if watched == path:
                queue.put(event)

    def found(self, path: str) -> Object | None:
        scene, within = self.scene, f"/namespaces/{NAMESPACE}"
        lists: dict[str, list[Object]] = {
            "/apis/ray.io/v1/rayclusters": [scene.cluster],
            "/apis/ray.io/v1/rayjobs": scene.ray_jobs,
            "/apis/ray.io/v1/rayservices": scene.ray_services,
            "/apis/kueue.x-k8s.io/v1beta2/workloads": scene.workloads,
            "/api/v1/pods": list(scene.pods.values()),
            "/api/v1/events": scene.events,
            "/api/v1/services": scene.services,
            "/api/v1/nodes": scene.nodes,
            "/api/v1/resourcequotas": scene.quotas,
            "/api/v1/namespaces": scene.namespaces,
            "/apis/scheduling.k8s.io/v1beta1/podgroups": scene.pod_groups,
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": scene.webhooks,
        }
        if path == "/apis/kueue.x-k8s.io":
            return {"preferredVersion": {"version": "v1beta2"}}
        if path == "/apis/scheduling.k8s.io/v1beta1":
            return {"resources": [{"name": "podgroups"}, {"name": "workloads"}]}
        if path in self.answers:
            return self.answers[path]
        if path == f"/api/v1{within}":
            return scene.namespaces[0]
        everywhere = path.replace(within, "")
        if everywhere not in lists:
            return None
        items = [identified(each) for each in lists[everywhere]]
        return {"metadata": {"resourceVersion": "1"}, "items": items}


def identified(found: Object) -> Object:
    """Return an object with a uid and a version, as every stored one has them."""
    meta = found["metadata"]
    own = {"uid": f"uid-of-{meta['name']}", "resourceVersion": "1", **meta}
    return {**found, "metadata": own}


class _Handler(Handler):
    server: Server

    def respond(self) -> None:
        """Answer a request, or a dry run: what was sent, or a denial."""
        if self.command == "GET":
            self._get()
        else:
            self._dry_run()

    def _get(self) -> None:
        url = urlsplit(self.path)
        body = self.server.found(url.path)
        if self.server.busy.get(url.path, 0) > 0:
            self.server.busy[url.path] -= 1
            self._send(429, {"kind": "Status", "message": "too many requests"}, Retry_After="0")
        elif url.path in self.server.refused:
            self._send(403, {"kind": "Status", "message": "not allowed"})
        elif body is None:
            self._send(404, {"kind": "Status", "message": "not found"})
        elif "watch=true" in url.query:
            self._watch(url.path)
        else:
            self._send(200, _selected(body, parse_qs(url.query)))

    def _watch(self, path: str) -> None:
        """Send what changes, until the server ends."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.close_connection = True
        queue: Queue[Object | None] = Queue()
        self.server.watches.append((path, queue))
        if self.server.ended:
            return
        with suppress(OSError):
            while (event := queue.get()) is not None:
                self.wfile.write(json.dumps(event).encode() + b"\n")
                self.wfile.flush()

    def _dry_run(self) -> None:
        body = json.loads(self.read())
        url = urlsplit(self.path)
        self.server.posted.append((self.path, body))
        denial = self.server.denials.get(url.path)
        asked = body.get("spec", {}).get("resourceAttributes", {})
        within = f"{asked.get('resource')} in {asked.get('namespace')}"
        if denial is not None:
            self._send(denial["code"], denial)
        elif {asked.get("resource"), within} & self.server.withheld:
            self._send(201, {"status": {"allowed": False}})
        else:
            self._send(201, self.server.answers.get(f"POST {url.path}", body))

    def _send(self, status: int, body: Object, **headers: str) -> None:
        self.send(status, json.dumps(body).encode(), Content_Type="application/json", **headers)


def _selected(body: Object, query: dict[str, list[str]]) -> Object:
    """Return a list of events without those of another reason."""
    for selector in query.get("fieldSelector", []):
        reason = selector.removeprefix("reason=")
        body = body | {"items": [each for each in body["items"] if each["reason"] == reason]}
    return body


@contextmanager
def serving(scene: Scene, folder: Path) -> Iterator[tuple[Server, Path]]:
    """Serve a scene, and yield the server and a kubeconfig for it."""
    server = Server(scene)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server, kubeconfig(folder, server.server_port)
    finally:
        server.shutdown()
        server.ended = True
        for _, queue in server.watches:
            queue.put(None)
        thread.join()
        server.server_close()


def kubeconfig(folder: Path, port: int) -> Path:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "it", "user": "me", "namespace": NAMESPACE}}
        ],
        "clusters": [{"name": "it", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "me", "user": {}}],
    }
    path.write_text(json.dumps(config))
    return path
