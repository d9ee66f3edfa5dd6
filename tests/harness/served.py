"""A scene behind a socket: a minimal API server for the commands that read a cluster, and the fake
API server in a thread.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Queue
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from anyio.from_thread import BlockingPortal, start_blocking_portal

from tests.builders import NAMESPACE
from tests.harness import http_server
from tests.harness.fake_api import FakeApi
from tests.harness.http_server import Handler
from tests.harness.scenes import Object, Scene


class Server:
    """Serves a scene. `answers` are other bodies by path, `refused` paths that are answered with
    403, `busy` how often a path is answered with 429 first, `withheld` resources that no one has
    rights to, anywhere or `in NAMESPACE`.
    """

    def __init__(self, scene: Scene) -> None:
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
        within = f"/namespaces/{NAMESPACE}"
        if path == "/apis/kueue.x-k8s.io":
            return {"preferredVersion": {"version": "v1beta2"}}
        if path == "/apis/scheduling.k8s.io/v1beta1":
            return {"resources": [{"name": "podgroups"}, {"name": "workloads"}]}
        if path in self.answers:
            return self.answers[path]
        if path == f"/api/v1{within}":
            return self.scene.namespaces[0]
        objects = self.scene.resources.get(path.replace(within, "").rpartition("/")[2])
        if objects is None:
            return None
        items = [identified(each) for each in objects]
        return {"metadata": {"resourceVersion": "1"}, "items": items}


def identified(found: Object) -> Object:
    """Return an object with a uid and a version, as every stored one has them."""
    meta = found["metadata"]
    own = {"uid": f"uid-of-{meta['name']}", "resourceVersion": "1", **meta}
    return {**found, "metadata": own}


class _Handler(Handler):
    scene_server: Server

    def respond(self) -> None:
        """Answer a request, or a dry run: what was sent, or a denial."""
        if self.command == "GET":
            self._get()
        else:
            self._dry_run()

    def _get(self) -> None:
        url = urlsplit(self.path)
        body = self.scene_server.found(url.path)
        if self.scene_server.busy.get(url.path, 0) > 0:
            self.scene_server.busy[url.path] -= 1
            self._send(429, {"kind": "Status", "message": "too many requests"}, Retry_After="0")
        elif url.path in self.scene_server.refused:
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
        self.scene_server.watches.append((path, queue))
        if self.scene_server.ended:
            return
        with suppress(OSError):
            while (event := queue.get()) is not None:
                self.wfile.write(json.dumps(event).encode() + b"\n")
                self.wfile.flush()

    def _dry_run(self) -> None:
        body = json.loads(self.read())
        url = urlsplit(self.path)
        self.scene_server.posted.append((self.path, body))
        denial = self.scene_server.denials.get(url.path)
        asked = body.get("spec", {}).get("resourceAttributes", {})
        within = f"{asked.get('resource')} in {asked.get('namespace')}"
        if denial is not None:
            self._send(denial["code"], denial)
        elif {asked.get("resource"), within} & self.scene_server.withheld:
            self._send(201, {"status": {"allowed": False}})
        else:
            self._send(201, self.scene_server.answers.get(f"POST {url.path}", body))

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
    with http_server.serving(type("_", (_Handler,), {"scene_server": server})) as port:
        try:
            yield server, kubeconfig(folder, port)
        finally:
            server.ended = True
            for _, queue in server.watches:
                queue.put(None)


class Cluster(NamedTuple):
    """A fake API server in a thread, whose objects a test changes through a portal to its loop."""

    api: FakeApi
    portal: BlockingPortal

    def put(self, resource: str, found: Object) -> None:
        self.portal.call(self.api.put, resource, found)

    def delete(self, resource: str, name: str, namespace: str = NAMESPACE) -> None:
        self.portal.call(self.api.delete, resource, name, namespace)

    def store(self, scene: Scene) -> None:
        self.portal.call(self.api.store, scene.resources)


@contextmanager
def serving_cluster() -> Iterator[Cluster]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(FakeApi(served={"v1beta1"}).serving()) as api,
    ):
        yield Cluster(api, portal)


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
