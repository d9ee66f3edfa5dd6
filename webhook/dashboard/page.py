"""The site: pages and data for the application, from the state of `Live`."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from webhook.dashboard.listing import Listing, Shown, framed
from webhook.dashboard.live_updates import Live
from webhook.dashboard.panels import Panels, PodStory
from webhook.dashboard.query import Query, query_of
from webhook.dashboard.rendered import HtmlDrawer
from webhook.dashboard.rights import NotNowError, UserScope
from webhook.dashboard.sessions import Access
from webhook.diagnostics.document import Status, described, encoded, written

STREAMS: Final = 16
"""The maximum of open streams per user."""
BEAT_SECONDS: Final = 15.0
"""The period of heartbeats on a stream, which check access again and keep proxies connected."""


class DashboardSite:
    """Pages and data of the current state, for users that `access` accepts."""

    def __init__(self, live: Live, access: Access, drawer: HtmlDrawer) -> None:
        self._live = live
        self._access = access
        self.drawer = drawer
        self._listing = Listing(live, drawer)
        self._panels = panels = Panels(live, drawer)
        self._streams: Counter[str] = Counter()
        self.links = not access.tokens
        self.enter = access.enter
        self.leave = access.leave
        self.sight = access.sight
        self.page = self._listing.page
        self.pod, self.host, self.diagnosis = panels.pod, panels.host, panels.diagnosis

    @property
    def schemas(self) -> dict[str, Any]:
        """JSON Schemas of `Status` and `Pod`, and of the types that these refer to."""
        found = described((Status, PodStory), "#/components/schemas/{name}")
        pod = found.pop(PodStory.__name__)
        return {**found, "Pod": pod | {"title": "Pod"}}

    def sign_in(self, wrong: str) -> str:
        return self.drawer.page("enter", wrong=wrong, tokens=self._access.tokens)

    def streams(self, sight: UserScope) -> bool:
        return self._streams[sight.user] < STREAMS

    async def events(
        self,
        read_scope: Callable[[], Awaitable[UserScope | None]],
        parameters: Mapping[str, str],
        since: str,
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

    async def _sight(
        self, read_scope: Callable[[], Awaitable[UserScope | None]]
    ) -> UserScope | None:
        """Return the user of a stream; None also at shutdown or without an answer."""
        try:
            return await self._live.unless_closed(read_scope())
        except NotNowError:
            return None

    async def _messages(
        self, read_scope: Callable[[], Awaitable[UserScope | None]], query: Query, since: str
    ) -> AsyncIterator[bytes]:
        before: Shown | None = None
        yield b"retry: 2000\n\n"
        while not self._live.closing:
            changed = self._live.changed
            sight = await self._sight(read_scope)
            if sight is None:
                return
            shown = self._listing.shown(sight, query)
            messages = [] if shown.version == since else shown.since(before)
            before, since = shown, shown.version
            for message in messages[:-1]:
                yield framed(message, "")
            yield framed(messages[-1], since) if messages else b": still here\n\n"
            await self._live.wait(changed, BEAT_SECONDS)

    async def status_json(self, sight: UserScope, namespace: str) -> AsyncIterator[bytes]:
        """Yield the status as JSON, and yield to other tasks between two RayClusters."""
        live = self._live
        cluster_report = live.examiner.cluster_report(
            live.clock(), _scope(sight, namespace), live.unread
        )
        for part in encoded(cluster_report):
            yield part
            await asyncio.sleep(0)

    def pod_json(self, sight: UserScope, namespace: str, name: str) -> bytes | None:
        story = self._panels.story(sight, namespace, name)
        return None if story is None else msgspec.json.encode(written(story))


def _scope(sight: UserScope, namespace: str) -> frozenset[str] | None:
    """Return the namespaces to show: all that the user can see, or one of them."""
    if not namespace:
        return sight.namespaces
    return frozenset({namespace} if sight.sees(namespace) else ())
