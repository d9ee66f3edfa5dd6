"""The site: pages and data for the application, from the state of `LiveRenderer`."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from webhook.dashboard.listing import Listing, Shown, format_message
from webhook.dashboard.live_updates import LiveRenderer
from webhook.dashboard.panels import Panels, PodDetails
from webhook.dashboard.query import Query, query_of
from webhook.dashboard.rendered import HtmlDrawer
from webhook.dashboard.session import Session
from webhook.diagnostics.document import StatusReport, build_schemas, encode_report

STREAMS: Final = 16
"""The maximum of open streams."""
BEAT_SECONDS: Final = 15.0
"""The period of heartbeats on a stream, which end streams of closed pages."""


class DashboardSite:
    """Pages and data of the current state, for the user of `session`."""

    def __init__(self, live: LiveRenderer, session: Session, drawer: HtmlDrawer) -> None:
        self._live = live
        self.session = session
        self.drawer = drawer
        self.listing = Listing(live, drawer)
        self.panels = Panels(live, drawer)
        self._streams = 0

    @property
    def schemas(self) -> dict[str, Any]:
        """JSON Schemas of `StatusReport` and `Pod`, and of the types that these refer to."""
        schemas_by_name = build_schemas((StatusReport, PodDetails), "#/components/schemas/{name}")
        pod = schemas_by_name.pop(PodDetails.__name__)
        return {**schemas_by_name, "Pod": pod | {"title": "Pod"}}

    def sign_in(self, wrong: str) -> str:
        return self.drawer.page("enter", wrong=wrong)

    @property
    def accepts_stream(self) -> bool:
        """Return whether another stream can be opened."""
        return self._streams < STREAMS

    async def events(self, parameters: Mapping[str, str], since: str) -> AsyncIterator[bytes]:
        """Yield messages that keep a page up to date, until the process ends."""
        if not self.accepts_stream:
            return
        self._streams += 1
        try:
            async for message in self._messages(query_of(parameters), since):
                yield message
        finally:
            self._streams -= 1

    async def _messages(self, query: Query, since: str) -> AsyncIterator[bytes]:
        last_content: Shown | None = None
        yield b"retry: 2000\n\n"
        while not self._live.closing:
            changed = self._live.changed
            content = self.listing.shown(query)
            messages = [] if content.version == since else content.since(last_content)
            last_content, since = content, content.version
            for message in messages[:-1]:
                yield format_message(message, "")
            yield format_message(messages[-1], since) if messages else b": still here\n\n"
            await self._live.wait(changed, BEAT_SECONDS)

    async def status_json(self, namespace: str) -> AsyncIterator[bytes]:
        """Yield the status as JSON, and yield to other tasks between two RayClusters."""
        live = self._live
        for part in encode_report(
            live.examiner.cluster_report(live.clock(), live.unread, namespace)
        ):
            yield part
            await asyncio.sleep(0)
