"""The composition root of `dashboard`. No logic.

See docs/contributing/decisions/0036-no-headlamp-plugin.md.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.app.informers import Connected
from webhook.app.runtime import Runnable
from webhook.cache.cluster_cache import Observing
from webhook.cache.state_files import Stated
from webhook.dashboard.live_updates import LiveRenderer, Source
from webhook.dashboard.page import DashboardSite
from webhook.dashboard.rendered import Board, HtmlDrawer
from webhook.dashboard.routes import site_application
from webhook.dashboard.session import Session
from webhook.diagnostics.examiner import Examiner
from webhook.httpserver.server import HttpServer
from webhook.kubeclient.access import Load
from webhook.kubeclient.client import Api
from webhook.objects.object_cache import ObjectCache


@dataclass(frozen=True)
class DashboardServer:
    """The page on a loopback port, with its session and the tasks that update it."""

    live: LiveRenderer
    session: Session
    server: HttpServer
    runnables: dict[str, Runnable] = field(default_factory=dict)

    async def drain(self) -> None:
        self.live.close()


def build(load: Load, namespace: str, port: int, *, ignoring: bool) -> DashboardServer:
    """Return the page of a cluster, read by the connection of a user."""
    api, object_cache = Api(load), ObjectCache(ignoring=ignoring)
    observing = Observing(api, object_cache, [namespace] if namespace else [], person=True)
    page = _page(observing, object_cache, port)
    page.runnables["cluster"] = Connected(api, {"observing": observing})
    return page


def build_stated(
    object_cache: ObjectCache, now: float, unread: Mapping[str, str], port: int
) -> DashboardServer:
    """Return the page of objects that were read at `now`, in seconds since the epoch, without
    `unread` kinds, each with the reason.
    """
    return _page(Stated(object_cache, unread), object_cache, port, now)


def _page(
    source: Source, object_cache: ObjectCache, port: int, now: float | None = None
) -> DashboardServer:
    drawer, session = HtmlDrawer(now), Session()
    clock = time.time if now is None else lambda: now
    live = LiveRenderer(source, Examiner(object_cache), Board(drawer), clock)
    app = site_application(DashboardSite(live, session, drawer))
    server = HttpServer(app, "127.0.0.1", port)
    return DashboardServer(live, session, server, {"page": server, "live": live})
