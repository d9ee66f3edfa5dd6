"""The listing: the page, and what of it changes while it is open."""

from collections.abc import Mapping
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import Struct

from webhook.dashboard.feed import Shown
from webhook.dashboard.live_updates import Live
from webhook.dashboard.query import SORTS, Query, query_of
from webhook.dashboard.rendered import Found
from webhook.dashboard.routes import UserScope
from webhook.dashboard.templates import HtmlDrawer
from webhook.dashboard.view import HOST_STATES, STATES, told
from webhook.diagnostics.diagnosis import ERROR, Trouble
from webhook.diagnostics.messages import counted


class Chip(Struct, frozen=True):
    """A filter of the page: its link, and whether it is chosen."""

    id: str
    text: str
    href: str
    chosen: bool


class Listing:
    """Draws what a query finds of what is live."""

    def __init__(self, live: Live, drawer: HtmlDrawer) -> None:
        self._live = live
        self._drawer = drawer

    def page(self, sight: UserScope, parameters: Mapping[str, str]) -> str:
        """Return the page."""
        query = query_of(parameters)
        found = self._live.board.find(query, sight.namespaces)
        shown = self._with(sight, query, found)
        beside, after, _ = map(Markup, shown.around)
        return self._drawer.page(
            "page",
            problems=self._problems(sight, query, found),
            user=sight.user,
            options=Markup(self._options(query, found)),  # noqa: S704 - of our template
            query=query,
            sorts=SORTS,
            feed=urlencode({**query.parameters, "since": shown.version}),
            beside=beside,
            clusters=Markup(shown.html),  # noqa: S704 - of our templates
            after=after,
            states=HOST_STATES,
        )

    def shown(self, sight: UserScope, query: Query) -> Shown:
        """Return what a page shows now."""
        return self._with(sight, query, self._live.board.find(query, sight.namespaces))

    def _with(self, sight: UserScope, query: Query, found: Found) -> Shown:
        options = self._options(query, found)
        around = {
            self._beside(sight, query, found): "outerMorph",
            self._after(query, found): "outerMorph",
            f'<select id="namespace">{options}</select>': "innerMorph",
        }
        return Shown(found.shown, around)

    def _problems(self, sight: UserScope, query: Query, found: Found) -> int:
        """Return how many errors there are: those of RayClusters, and those that are none's."""
        return found.errors + sum(each.level == ERROR for each in self._troubles(sight, query))

    def _troubles(self, sight: UserScope, query: Query) -> tuple[Trouble, ...]:
        everything = sight.namespaces is None and not query.namespace
        return self._live.survey.troubles if everything else ()

    def _beside(self, sight: UserScope, query: Query, found: Found) -> str:
        """Return what the page says of all RayClusters together, and of none of them."""
        live, states, troubles = self._live, found.states, self._troubles(sight, query)
        outage = (
            f"No news from the API server ({live.source.trouble}): showing the last known state."
        )
        return self._drawer.page(
            "beside",
            problems=self._problems(sight, query, found),
            summary=_summary(found, len(troubles)) if live.source.synced else "Reading the cluster",
            states=[
                Chip(state, f"{states.get(state, 0)} {text}", query.toggled("state", state), chosen)
                for state, text in STATES.items()
                if (chosen := query.state == state) or state in states
            ],
            chips=[
                Chip(problem, f"{count}", query.toggled("problem", problem), chosen)
                for problem, count in found.problems.items()
                if (chosen := query.problem == problem) or not query.cluster
            ],
            trouble=outage if live.source.trouble else "",
            told=[told(each) for each in troubles],
            back=Query().address if query.cluster else "",
        )

    def _after(self, query: Query, found: Found) -> str:
        """Return what follows the RayClusters: other pages, and what was not read."""
        nothing = ""
        if not found.shown:
            nothing = (
                "No RayCluster matches."
                if found.namespaces
                else "There is no RayCluster here that you may see."
            )
        return self._drawer.page(
            "after",
            nothing=nothing,
            before=query.at(found.page - 1) if found.page > 1 else "",
            next=query.at(found.page + 1) if found.page < found.pages else "",
            pages=f"page {found.page} of {found.pages}",
            unread=self._live.unread,
        )

    def _options(self, query: Query, found: Found) -> str:
        every = sorted({*found.namespaces, *filter(None, [query.namespace])})
        return self._drawer.page("options", namespaces=every, namespace=query.namespace)


def _summary(found: Found, installation: int) -> str:
    """Return in a sentence how many RayClusters there are, how many cannot be shown, and how many
    problems the installation has.
    """
    what = counted(found.every, "RayCluster")
    if found.failed:
        what += f", {found.failed} of them cannot be shown"
    if installation:
        what += f"; {counted(installation, 'problem')} of the installation"
    return what
