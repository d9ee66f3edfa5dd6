"""Scenes as the cluster behind the dashboard, which a test can change."""

import json
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from tests.harness.scenes import NOW, Object, Observed, Scene
from webhook.cache.state_files import Stated
from webhook.dashboard.live_updates import LiveRenderer
from webhook.dashboard.rendered import Board, HtmlDrawer
from webhook.diagnostics.examiner import Examiner
from webhook.objects.live_objects import LiveCluster, LivePod
from webhook.objects.object_cache import ObjectCache

T = TypeVar("T")


def renamed(scene: Scene, namespace: str, name: str) -> Observed:
    text = msgspec.json.encode(scene.observed()).decode()
    text = text.replace('"team"', json.dumps(namespace)).replace("llama", name)
    text = text.replace("uid-of-", f"uid-of-{namespace}-")
    text = text.replace('"node-', f'"{namespace}-{name}-node-')
    return msgspec.json.decode(text, type=Observed)


class Setup:
    """What is on the page. Time stands still unless a test moves it."""

    def __init__(self, *observed: Observed, ignoring: bool = True) -> None:
        self.object_cache = ObjectCache(ignoring=ignoring)
        self.now = NOW
        self.drawer = HtmlDrawer()
        source = Stated(Observed([], [], events=[], services=[], nodes=[]).load(ObjectCache()), {})
        self.live = LiveRenderer(
            source, Examiner(self.object_cache), Board(self.drawer), lambda: self.now
        )
        for each in observed:
            self.load(each)
        self.examine_changed()

    @property
    def board(self) -> Board:
        return self.live.board

    def load(self, observed: Observed) -> None:
        observed.load(self.object_cache)

    def examine_changed(self) -> None:
        """Look at what has changed, as `Live` does."""
        self.live.examiner.examine_installation(self.now)
        for uid in self.live.examiner.due(self.now):
            if self.live.examiner.examine(uid, self.now):
                self.board.put(uid, self.live.examiner.clusters.get(uid))
        if self.board.publish():
            self.live.notify()

    def put_cluster(self, document: Object) -> None:
        self.object_cache.clusters.put(document["metadata"]["uid"], _view(document, LiveCluster))

    def put_pods(self, documents: Iterable[Object]) -> None:
        for document in documents:
            self.object_cache.pods.put(document["metadata"]["uid"], _view(document, LivePod))

    def drop_pods(self, documents: Iterable[Object]) -> None:
        for document in documents:
            self.object_cache.pods.remove(document["metadata"]["uid"])


def _view(document: Object, kind: type[T]) -> T:
    return msgspec.json.decode(json.dumps(document), type=kind)


def document_of(scene: Scene, namespace: str, name: str) -> dict[str, list[Object]]:
    found = {
        "rayclusters": [scene.cluster], "pods": list(scene.pods.values()), "events": scene.events,
        "services": scene.services, "nodes": scene.nodes,
    }  # fmt: skip
    text = json.dumps(found).replace('"team"', json.dumps(namespace)).replace("llama", name)
    text = text.replace("uid-of-", f"uid-of-{namespace}-")
    renamed_: dict[str, list[Object]] = json.loads(
        text.replace('"node-', f'"{namespace}-{name}-node-')
    )
    return renamed_
