"""Jinja2 templates, in which every value is escaped and missing values are errors; the rendered
RayClusters of the list, and queries on them.
"""

from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from typing import Any, Final
from zlib import crc32

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct

from webhook.api.formats import many_lines
from webhook.api.times import text_of
from webhook.dashboard.query import Query
from webhook.dashboard.view import (
    STATES,
    Section,
    build_list_section,
    pages_of,
    state_of,
    time_of,
    whole,
)
from webhook.diagnostics import report
from webhook.diagnostics.diagnosis import ERROR

LISTED: Final = 50
"""RayClusters per page of the list."""

_RANKS: Final = {state: number for number, state in enumerate(STATES)}


_KINDS: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_BUNDLE: Final = ("htmx.min.js", "hx-sse.min.js", "page.js")
"""Scripts in one file: htmx starts at the end of its script, when the others have to be loaded."""


def _printable(value: object) -> object:
    """Return a text of an object without control characters; markup as it is."""
    return many_lines(value) if type(value) is str else value


class HtmlDrawer:
    """Renders views with the templates of this package. Ages are as of `now` if it is given, in
    seconds since the epoch.
    """

    def __init__(self, now: float | None = None) -> None:
        environment = Environment(
            loader=PackageLoader("webhook.dashboard"),
            # Names and messages in the page are texts of tenants.
            autoescape=True,
            finalize=_printable,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.assets = assets()
        """The static files by name: content and type."""
        version = crc32(b"".join(body for body, _ in self.assets.values()))
        environment.filters["time"] = time_of
        # Browsers keep these files for a year; a new version has another address.
        environment.globals["asset"] = lambda name: f"/static/{name}?v={version}"
        environment.globals["now"] = text_of(now)
        self._environment = environment
        self._section = environment.get_template("section.html")

    def section(self, section: Section) -> str:
        return self._section.render(section=section)

    def page(self, name: str, **values: Any) -> str:  # noqa: ANN401 - what the template shows
        return self._environment.get_template(f"{name}.html").render(values)


def assets() -> dict[str, tuple[bytes, str]]:
    """Return the static files by name: content and type."""
    folder = files("webhook.dashboard") / "static"
    files_by_name = {}
    for file in folder.iterdir():
        kind = _KINDS.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            files_by_name[file.name] = file.read_bytes(), kind
    parts = [files_by_name.pop(name)[0] for name in _BUNDLE]
    return {**files_by_name, "bundle.js": (b";\n".join(parts), _KINDS[".js"])}


class RenderedCluster(Struct):
    """A RayCluster with the values for queries. `words` is the text for searches."""

    id: str
    cluster: report.RayClusterReport
    state: str
    problems: frozenset[str]
    errors: int
    words: str
    html: str


class Found(Struct, frozen=True):
    """The result of a query: the numbers of RayClusters with matching words by state and by
    problem; and those of the page.
    """

    every: int
    errors: int
    failed: int
    namespaces: list[str]
    states: dict[str, int]
    problems: dict[str, int]
    page: int
    pages: int
    shown: dict[str, str]
    """The HTML of each RayCluster by the id of its element, in order."""


class Board:
    """Entries of all RayClusters."""

    def __init__(self, drawer: HtmlDrawer) -> None:
        self._drawer = drawer
        self._entries: dict[str, RenderedCluster] = {}
        self._changed = False

    def put(self, uid: str, cluster: report.RayClusterReport | None) -> None:
        """Store the report of a RayCluster, None for a deleted RayCluster."""
        if cluster is None:
            self._changed |= self._entries.pop(uid, None) is not None
            return
        problems = frozenset(problem.id for problem in cluster.problems)
        hosts = [host for group in cluster.groups for host in group.every_host]
        search_words = {cluster.namespace, cluster.name, cluster.owner, cluster.queue, *problems}
        search_words |= {group.name for group in cluster.groups}
        search_words |= {host.node for host in (cluster.head, *hosts)}
        section = build_list_section(cluster)
        self._entries[uid] = RenderedCluster(
            section.id,
            cluster,
            state=state_of(cluster),
            problems=problems,
            errors=bool(cluster.failure)
            + sum(problem.level == ERROR for problem in cluster.problems),
            words="\n".join(search_words).lower(),
            html=self._drawer.section(section),
        )
        self._changed = True

    def publish(self) -> bool:
        """Return whether an entry has changed since the last call."""
        changed, self._changed = self._changed, False
        return changed

    def find(self, query: Query) -> Found:
        """Return the result of a query."""
        search_words = query.q.lower().split()
        matching = [
            entry
            for entry in self._entries.values()
            if query.namespace in ("", entry.cluster.namespace)
            and all(word in entry.words for word in search_words)
        ]
        chosen = [
            entry
            for entry in matching
            if query.state in ("", entry.state)
            and (not query.problem or query.problem in entry.problems)
            and query.cluster in ("", entry.cluster.name)
        ]
        chosen.sort(key=_ORDERS[query.sort])
        sections, page, pages = self._render_page(query, chosen)
        problems = Counter(problem for entry in matching for problem in entry.problems)
        return Found(
            len(matching),
            sum(entry.errors for entry in matching),
            failed=sum(bool(entry.cluster.failure) for entry in matching),
            namespaces=sorted({entry.cluster.namespace for entry in self._entries.values()}),
            states=dict(Counter(entry.state for entry in matching)),
            problems=dict(sorted(problems.items(), key=lambda item: (-item[1], item[0]))),
            page=page,
            pages=pages,
            shown=sections,
        )

    def _render_page(
        self, query: Query, chosen: list[RenderedCluster]
    ) -> tuple[dict[str, str], int, int]:
        """Return the HTML of the RayClusters of a page, its number, and the number of pages."""
        if query.cluster and len(chosen) == 1:
            cluster = chosen[0].cluster
            pages = pages_of(cluster)
            page = min(query.page, pages)
            section = whole(cluster, page)
            return {section.id: self._drawer.section(section)}, page, pages
        pages = max(1, -(-len(chosen) // LISTED))
        page = min(query.page, pages)
        entries = chosen[(page - 1) * LISTED : page * LISTED]
        return {entry.id: entry.html for entry in entries}, page, pages


def _read_namespaced_name(entry: RenderedCluster) -> tuple[str, str]:
    return entry.cluster.namespace, entry.cluster.name


_ORDERS: Final[dict[str, Callable[[RenderedCluster], Any]]] = {
    "": lambda entry: (_RANKS[entry.state], *_read_namespaced_name(entry)),
    "name": _read_namespaced_name,
    "newest": lambda entry: (-(entry.cluster.created or 0.0), *_read_namespaced_name(entry)),
    "oldest": lambda entry: (entry.cluster.created or 0.0, *_read_namespaced_name(entry)),
}
