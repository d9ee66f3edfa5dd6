"""The site: pages and data for the application, from the state of `Live`."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from webhook.dashboard.listing import Listing, Shown, framed
from webhook.dashboard.live_updates import Live
from webhook.dashboard.panels import Panels, PodStory
from webhook.dashboard.query import Query, query_of
from webhook.dashboard.rendered import HtmlDrawer
from webhook.dashboard.rights import NotNowError, UserScope
from webhook.dashboard.sessions import Access
from webhook.diagnostics.document import Status, described, encoded

ReadScope = Callable[[], Awaitable[UserScope | None]]
"""Returns the user of an open stream, None for one who has signed out."""

STREAMS: Final = 16
"""The maximum of open streams per user."""
BEAT_SECONDS: Final = 15.0
"""The period of heartbeats on a stream, which check access again and keep proxies connected."""


class DashboardSite:
    """Pages and data of the current state, for users that `access` accepts."""

    def __init__(self, live: Live, access: Access, drawer: HtmlDrawer) -> None:
        self._live = live
        self.access = access
        self.drawer = drawer
        self.listing = Listing(live, drawer)
        self.panels = Panels(live, drawer)
        self._streams: Counter[str] = Counter()

    @property
    def schemas(self) -> dict[str, Any]:
        """JSON Schemas of `Status` and `Pod`, and of the types that these refer to."""
        found = described((Status, PodStory), "#/components/schemas/{name}")
        pod = found.pop(PodStory.__name__)
        return {**found, "Pod": pod | {"title": "Pod"}}

    def sign_in(self, wrong: str) -> str:
        return self.drawer.page("enter", wrong=wrong, tokens=self.access.tokens)

    def streams(self, sight: UserScope) -> bool:
        return self._streams[sight.user] < STREAMS

    async def events(
        self, read_scope: ReadScope, parameters: Mapping[str, str], since: str
    ) -> AsyncIterator[bytes]:
        """Yield messages that keep a page up to date, until the user signs out, the rights of the
        user cannot be read, or the process ends.
        """
        first = await self._sight(read_scope)
        if first is None or not self.streams(first):
            return
        self._streams[first.user] += 1
        try:
            async for message in self._messages(read_scope, query_of(parameters), since):
                yield message
        finally:
            self._streams[first.user] -= 1
            self._streams += Counter()  # drops users without streams

    async def _sight(self, read_scope: ReadScope) -> UserScope | None:
        """Return the user of a stream; None also at shutdown or without an answer."""
        try:
            return await self._live.unless_closed(read_scope())
        except NotNowError:
            return None

    async def _messages(
        self, read_scope: ReadScope, query: Query, since: str
    ) -> AsyncIterator[bytes]:
        before: Shown | None = None
        yield b"retry: 2000\n\n"
        while not self._live.closing:
            changed = self._live.changed
            sight = await self._sight(read_scope)
            if sight is None:
                return
            shown = self.listing.shown(sight, query)
            messages = [] if shown.version == since else shown.since(before)
            before, since = shown, shown.version
            for message in messages[:-1]:
                yield framed(message, "")
            yield framed(messages[-1], since) if messages else b": still here\n\n"
            await self._live.wait(changed, BEAT_SECONDS)

    async def status_json(self, sight: UserScope, namespace: str) -> AsyncIterator[bytes]:
        """Yield the status as JSON, and yield to other tasks between two RayClusters."""
        live, seen = self._live, sight.namespaces
        if namespace:
            seen = frozenset({namespace} if sight.sees(namespace) else ())
        for part in encoded(live.examiner.cluster_report(live.clock(), seen, live.unread)):
            yield part
            await asyncio.sleep(0)
