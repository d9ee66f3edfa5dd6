"""The composition root of `dashboard`: what it shows, to whom, and where it listens. No logic.

See docs/contributing/decisions/0036-a-page-of-its-own-beside-headlamp.md.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from webhook.dashboard.access import Access, OwnAccess, TokenAccess
from webhook.dashboard.board import Board
from webhook.dashboard.drawing import HtmlDrawer
from webhook.dashboard.live import Live, Source
from webhook.dashboard.site import DashboardSite
from webhook.dashboard.stated import Stated
from webhook.follow.access import Load
from webhook.follow.client import Api
from webhook.follow.observing import Observing
from webhook.http.application import admin_application
from webhook.http.server import HttpServer
from webhook.http.site import LOOPBACK, site_application
from webhook.runtime import Process, Runnable
from webhook.serving.gate import Gate
from webhook.settings import Settings
from webhook.status.observed import Observed
from webhook.status.survey import Survey
from webhook.status.world import World
from webhook.telemetry import table
from webhook.telemetry.log import Log, Output, follow_logs
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.readable import form_of
from webhook.wiring.connection import connection
from webhook.wiring.following import Connected, watch_metrics


@dataclass(frozen=True)
class Page:
    """The page, and what keeps it up to date."""

    live: Live
    server: HttpServer
    runnables: dict[str, Runnable] = field(default_factory=dict)

    async def drain(self) -> None:
        """Let those go who wait for news."""
        self.live.close()


def build(settings: Settings, output: Output) -> Process:
    """Return the process as it runs in a cluster, for all whose token the API server knows."""
    log = Log(output, "dashboard", form_of(settings.log.format, output))
    metrics, own = Metrics("dashboard"), settings.dashboard
    follow_logs(log)
    settings.extend()
    api, world = Api(connection(settings.kubeconfig)), World(ignoring=settings.ignore.rayclusters)
    observing = Observing(api, world, settings.namespaces)
    access = TokenAccess(api, world.occupied)
    page = _page(observing, world, access, own.host, own.port, LOOPBACK | {*own.hosts})

    live, survey = page.live, page.live.survey
    metrics.expose(table.DASHBOARD_CLUSTERS, lambda: len(world.clusters.all))
    metrics.expose(table.DASHBOARD_PODS, lambda: len(world.pods.all))
    metrics.expose(table.DASHBOARD_LOOKS, lambda: live.looks)
    metrics.expose(table.DASHBOARD_SECONDS, lambda: live.seconds)
    metrics.expose(table.DASHBOARD_REMEMBERED, lambda: survey.remembered)
    metrics.expose(table.DASHBOARD_WORKED_OUT, lambda: survey.worked_out)
    metrics.expose(table.DASHBOARD_FAILURES, lambda: live.failures)
    watch_metrics(metrics, lambda: observing.watches)
    gate = Gate({"RayClusters and pods": lambda: observing.synced})
    listen = settings.listen
    admin = HttpServer(admin_application(gate, metrics.exposition), listen.host, listen.admin_port)

    async def drain() -> None:
        gate.draining = True
        await page.drain()

    runnables = {
        **page.runnables,
        "cluster": Connected(api, {"observing": observing}),
        "admin": admin,
    }
    return Process(runnables, (page.server, admin), drain, log)


def build_own(load: Load, namespace: str, port: int, *, ignoring: bool) -> tuple[Page, OwnAccess]:
    """Return the page for one person, by whose kubeconfig a cluster is looked at."""
    api, world, access = Api(load), World(ignoring=ignoring), OwnAccess()
    observing = Observing(api, world, [namespace] if namespace else [], person=True)
    page = _page(observing, world, access, "127.0.0.1", port, LOOPBACK)
    page.runnables["cluster"] = Connected(api, {"observing": observing})
    return page, access


def build_stated(observed: Observed, port: int, *, ignoring: bool) -> tuple[Page, OwnAccess]:
    """Return the page of what was read from files."""
    world, access = World(ignoring=ignoring), OwnAccess()
    world.load(observed)
    return _page(Stated(observed), world, access, "127.0.0.1", port, LOOPBACK), access


def _page(
    source: Source,
    world: World,
    access: Access,
    host: str,
    port: int,
    hosts: Collection[str],
) -> Page:
    drawer = HtmlDrawer()
    live = Live(source, Survey(world), Board(drawer))
    site = DashboardSite(live, access, drawer)
    app = site_application(site, hosts, "ray-webhook")
    server = HttpServer(app, host, port)
    return Page(live, server, {"page": server, "live": live})
