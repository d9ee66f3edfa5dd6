"""Scenes as the cluster behind the dashboard, which a test can change."""

from collections.abc import Iterable

import msgspec

from tests.harness.scenes import NOW, Object, Observed, Scene
from webhook.cache.state_files import Stated
from webhook.dashboard.live_updates import LiveRenderer
from webhook.dashboard.rendered import Board, HtmlDrawer
from webhook.diagnostics.examiner import Examiner
from webhook.objects.live_objects import LiveCluster, LivePod
from webhook.objects.object_cache import ObjectCache


def renamed(scene: Scene, namespace: str, name: str) -> Observed:
    return scene.renamed(namespace, name).observed()


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
        cluster = msgspec.convert(document, LiveCluster)
        self.object_cache.clusters.put(document["metadata"]["uid"], cluster)

    def put_pods(self, documents: Iterable[Object]) -> None:
        for document in documents:
            pod = msgspec.convert(document, LivePod)
            self.object_cache.pods.put(document["metadata"]["uid"], pod)

    def drop_pods(self, documents: Iterable[Object]) -> None:
        for document in documents:
            self.object_cache.pods.remove(document["metadata"]["uid"])
