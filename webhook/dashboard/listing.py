"""The list of RayClusters: the page, and the parts that change while it is open."""

from collections.abc import Mapping
from hashlib import sha256
from re import compile as pattern
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import Struct

from webhook.dashboard.live_updates import LiveRenderer
from webhook.dashboard.query import SORTS, Query, query_of
from webhook.dashboard.rendered import Found, HtmlDrawer
from webhook.dashboard.view import HOST_STATES, STATES
from webhook.diagnostics.diagnosis import ERROR, Problem
from webhook.diagnostics.messages import format_count
from webhook.diagnostics.report import summarize_problems

_LINES: Final = pattern(r"\r\n|\r|\n")


class Chip(Struct, frozen=True):
    """A filter of the page: its link, and whether the filter is active."""

    id: str
    text: str
    href: str
    chosen: bool


class Shown(Struct, frozen=True):
    """The content of a page: RayClusters by the ids of their elements, in order, and the other
    elements, each with the way in which it is replaced.
    """

    sections: Mapping[str, str]
    around: Mapping[str, str]

    @property
    def html(self) -> str:
        return "".join(self.sections.values())

    @property
    def version(self) -> str:
        """A digest: pages with the same digest are equal."""
        every = "\0".join((*self.sections.values(), *self.around))
        return sha256(every.encode()).hexdigest()[:20]

    def since(self, before: "Shown | None") -> list[str]:
        """Return the messages that turn page `before` into this one; all parts if `before` is None.

        If a RayCluster was added, removed or moved, all RayClusters of the page are replaced
        together.
        """
        old_parts: Mapping[str, str] = before.around if before else {}
        messages = [
            _replacing(html, how) for html, how in self.around.items() if html not in old_parts
        ]
        if before is None or list(before.sections) != list(self.sections):
            return [f'<div id="clusters" hx-swap-oob="innerMorph">{self.html}</div>', *messages]
        changed = (html for key, html in self.sections.items() if before.sections[key] != html)
        return [*(_replacing(html, "outerMorph") for html in changed), *messages]


class Listing:
    """Renders the result of a query on the current state."""

    def __init__(self, live: LiveRenderer, drawer: HtmlDrawer) -> None:
        self._live = live
        self._drawer = drawer

    def page(self, parameters: Mapping[str, str]) -> str:
        query = query_of(parameters)
        result, problems = self._find(query)
        content = self._with(query, result, problems)
        beside, after, _ = map(Markup, content.around)
        return self._drawer.page(
            "page",
            problems=_errors(result, problems),
            options=Markup(self._options(query, result)),  # noqa: S704 - of our template
            query=query,
            sorts=SORTS,
            feed=urlencode({**query.parameters, "since": content.version}),
            beside=beside,
            clusters=Markup(content.html),  # noqa: S704 - of our templates
            after=after,
            states=HOST_STATES,
        )

    def shown(self, query: Query) -> Shown:
        return self._with(query, *self._find(query))

    def _find(self, query: Query) -> tuple[Found, tuple[Problem, ...]]:
        """Return the RayClusters to show, and the problems that belong to none."""
        problems = self._live.examiner.problems_in(query.namespace)
        return self._live.board.find(query), problems

    def _with(self, query: Query, found: Found, problems: tuple[Problem, ...]) -> Shown:
        options = self._options(query, found)
        around = {
            self._beside(query, found, problems): "outerMorph",
            self._after(query, found): "outerMorph",
            f'<select id="namespace">{options}</select>': "innerMorph",
        }
        return Shown(found.shown, around)

    def _beside(self, query: Query, found: Found, problems: tuple[Problem, ...]) -> str:
        """Return the part of the page about all RayClusters and about the installation."""
        live, states = self._live, found.states
        outage = (
            f"No news from the API server ({live.source.problem}): showing the last known state."
        )
        return self._drawer.page(
            "beside",
            problems=_errors(found, problems),
            summary=_summary(found, problems) if live.source.synced else "Reading the cluster",
            states=[
                Chip(
                    state, f"{states.get(state, 0)} {label}", query.toggled("state", state), chosen
                )
                for state, label in STATES.items()
                if (chosen := query.state == state) or state in states
            ],
            chips=[
                Chip(problem, f"{count}", query.toggled("problem", problem), chosen)
                for problem, count in found.problems.items()
                if (chosen := query.problem == problem) or not query.cluster
            ],
            problem=outage if live.source.problem else "",
            listed_problems=problems,
            back=Query().address if query.cluster else "",
        )

    def _after(self, query: Query, found: Found) -> str:
        nothing = ""
        if not found.shown:
            nothing = "No RayCluster matches." if found.namespaces else "There is no RayCluster."
        return self._drawer.page(
            "after",
            nothing=nothing,
            before=query.at(found.page - 1) if found.page > 1 else "",
            next=query.at(found.page + 1) if found.page < found.pages else "",
            pages=f"page {found.page} of {found.pages}",
            unread=self._live.unread,
        )

    def _options(self, query: Query, found: Found) -> str:
        # The chosen namespace may have lost its last RayCluster, and must stay selected.
        every = sorted({*found.namespaces, *filter(None, [query.namespace])})
        return self._drawer.page("options", namespaces=every, namespace=query.namespace)


def _errors(found: Found, problems: tuple[Problem, ...]) -> int:
    """Return the number of errors: of RayClusters, and of the installation."""
    return found.errors + sum(problem.level == ERROR for problem in problems)


def _summary(found: Found, problems: tuple[Problem, ...]) -> str:
    """Return a sentence with the numbers of RayClusters, of RayClusters that cannot be shown, and
    of problems that belong to none.
    """
    summary = format_count(found.every, "RayCluster")
    if found.failed:
        summary += f", {found.failed} of them cannot be shown"
    return summary + summarize_problems(problems)


def format_message(html: str, version: str) -> bytes:
    """Return one message of the stream, whatever text of tenants `html` contains."""
    lines = "".join(f"data: {line}\n" for line in _LINES.split(html))
    return (f"id: {version}\n{lines}\n" if version else f"{lines}\n").encode()


def _replacing(html: str, how: str) -> str:
    name, _, rest = html.lstrip().partition(" ")
    return f'{name} hx-swap-oob="{how}" {rest}'
