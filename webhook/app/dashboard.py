"""The composition root of `dashboard`. No logic.

See docs/contributing/decisions/0036-no-headlamp-plugin.md.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from webhook.app.informers import Connected, connection, watch_metrics
from webhook.app.runtime import Process, Runnable, admin_server, configured
from webhook.cache.cluster_cache import Observing
from webhook.config.configuration import Settings
from webhook.dashboard.live_updates import Live, Source
from webhook.dashboard.page import DashboardSite
from webhook.dashboard.rendered import Board, HtmlDrawer
from webhook.dashboard.routes import LOOPBACK, site_application
from webhook.dashboard.sessions import Access, OwnAccess, TokenAccess
from webhook.dashboard.state_files import Stated
from webhook.diagnostics.examiner import Examiner
from webhook.diagnostics.object_cache import ObjectCache
from webhook.httpserver.application import Readiness
from webhook.httpserver.server import HttpServer
from webhook.kubeclient.access import Load
from webhook.kubeclient.client import Api
from webhook.logging.log import Output
from webhook.metrics import table


@dataclass(frozen=True)
class Page:
    """The page, and the tasks that update it."""

    live: Live
    server: HttpServer
    runnables: dict[str, Runnable] = field(default_factory=dict)

    async def drain(self) -> None:
        self.live.close()


def build(settings: Settings, output: Output) -> Process:
    """Return the process for a cluster, for every user with a token of the API server."""
    log, metrics = configured(settings, output, "dashboard")
    own, api = settings.dashboard, Api(connection(settings.kubeconfig))
    object_cache = ObjectCache(ignoring=settings.ignore.rayclusters)
    observing = Observing(api, object_cache, settings.namespaces)
    access = TokenAccess(api, object_cache.occupied)
    page = _page(observing, object_cache, access, own.host, own.port, LOOPBACK | {*own.hosts})

    live = page.live
    metrics.expose(table.CLUSTERS, lambda: len(object_cache.clusters.all))
    metrics.expose(table.DASHBOARD_PODS, lambda: len(object_cache.pods.all))
    metrics.expose(table.DASHBOARD_EXAMINATIONS, lambda: live.examinations)
    metrics.expose(table.DASHBOARD_SECONDS, lambda: live.seconds)
    metrics.expose(table.DASHBOARD_FAILURES, lambda: live.failures)
    watch_metrics(metrics, lambda: observing.watches)
    gate = Readiness({"RayClusters and pods": lambda: observing.synced})
    admin = admin_server(settings, gate, metrics.exposition)

    async def drain() -> None:
        await gate.drain()
        await page.drain()

    runnables = {
        **page.runnables,
        "cluster": Connected(api, {"observing": observing}),
        "admin": admin,
    }
    return Process(runnables, (page.server, admin), drain, log)


def build_own(load: Load, namespace: str, port: int, *, ignoring: bool) -> tuple[Page, OwnAccess]:
    """Return the page for one user, read from the cluster of a kubeconfig."""
    api, object_cache, access = Api(load), ObjectCache(ignoring=ignoring), OwnAccess()
    observing = Observing(api, object_cache, [namespace] if namespace else [], person=True)
    page = _page(observing, object_cache, access, "127.0.0.1", port, LOOPBACK)
    page.runnables["cluster"] = Connected(api, {"observing": observing})
    return page, access


def build_stated(object_cache: ObjectCache, port: int) -> tuple[Page, OwnAccess]:
    """Return the page of objects read from files."""
    access = OwnAccess()
    return _page(Stated(object_cache), object_cache, access, "127.0.0.1", port, LOOPBACK), access


def _page(
    source: Source,
    object_cache: ObjectCache,
    access: Access,
    host: str,
    port: int,
    hosts: Collection[str],
) -> Page:
    drawer = HtmlDrawer()
    live = Live(source, Examiner(object_cache), Board(drawer))
    site = DashboardSite(live, access, drawer)
    app = site_application(site, hosts, "ray-webhook")
    server = HttpServer(app, host, port)
    return Page(live, server, {"page": server, "live": live})
