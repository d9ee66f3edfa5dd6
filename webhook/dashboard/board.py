"""The board: the page in pieces, each with the version at which it changed, so that a browser gets
only what it has not got.

A piece is HTML whose first element has an id. A version is a number that grows with each change;
what somebody has who has seen version 7 is found by comparing numbers alone.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, Protocol, TypeVar

from msgspec import Struct, field

from webhook.dashboard.view import (
    COMPACT,
    GroupTop,
    Row,
    Top,
    group_top,
    key_of,
    row_of,
    rows_of,
    top_of,
)
from webhook.status import model

S = TypeVar("S")

BATCH: Final = 60
"""Rows in one message: a browser takes in a message in one go."""
REMEMBERED: Final = 2000
"""Removals that are remembered: who has seen less gets the whole page again."""


class Drawer(Protocol):
    """Draws the parts of a view as HTML."""

    def top(self, top: Top) -> str:
        """Return what stands above the groups of a RayCluster."""

    def group(self, top: GroupTop) -> str:
        """Return what stands above the replicas of a group."""

    def row(self, row: Row) -> str:
        """Return a replica."""


class Piece(Struct):
    """A piece of the page: what it is drawn from, how it looks, since when it is there and so."""

    source: object
    html: str
    born: int
    changed: int


class Part(Struct):
    """A group on the page."""

    id: str
    top: Piece
    compact: bool
    rows: dict[str, Piece] = field(default_factory=dict)


class Section(Struct):
    """A RayCluster on the page. `shaped` is when its groups were others, `latest` the version of
    its last change of any kind.
    """

    key: str
    cluster: model.Cluster
    top: Piece
    born: int
    shaped: int
    latest: int
    parts: list[Part] = field(default_factory=list)

    @property
    def id(self) -> str:
        """The id of its element."""
        return f"c-{self.key}"


class Gone(Struct, frozen=True):
    """Something that was on the page until a version."""

    version: int
    namespace: str
    id: str


class Board:
    """Keeps the pieces of all RayClusters, in the order of namespace and name."""

    def __init__(self, drawer: Drawer) -> None:
        self.version = 1
        self._drawer = drawer
        self._sections: dict[str, Section] = {}
        self._order: list[Section] = []
        self._gone: deque[Gone] = deque(maxlen=REMEMBERED)
        self._floor = 0
        self._drawing = 1

    def put(self, uid: str, cluster: model.Cluster | None) -> None:
        """Take in how a RayCluster looks by now, None for one that is gone; seen with `publish`."""
        self._drawing = self.version + 1
        old = self._sections.get(uid)
        if cluster is None:
            if old is not None:
                self._forget(old.cluster.namespace, old.id)
                del self._sections[uid]
                self._order.remove(old)
            return
        if old is None:
            self._sections[uid] = section = self._new(cluster)
            self._order.append(section)
            self._order.sort(key=lambda each: (each.cluster.namespace, each.cluster.name))
        else:
            self._update(old, cluster)

    def publish(self) -> bool:
        """Let everything that was put be seen, as one version. Tell whether there is anything."""
        if self._drawing == self.version:
            return False
        self.version = self._drawing
        return True

    def clusters(self, namespaces: Collection[str] | None) -> list[model.Cluster]:
        """Return the RayClusters of some namespaces, or of all with None, in order."""
        return [section.cluster for section in self._seen(namespaces)]

    def html(self, namespaces: Collection[str] | None) -> str:
        """Return all RayClusters of some namespaces, whole."""
        return "".join(_whole(section) for section in self._seen(namespaces))

    def afresh(self, namespaces: Collection[str] | None) -> list[str]:
        """Return messages that replace everything, of a bounded number of rows each."""
        messages = ['<div id="clusters" hx-swap-oob="innerHTML"></div>']
        for section in self._seen(namespaces):
            first, *others = _in_batches(section)
            messages.append(f'<div hx-swap-oob="beforeend:#clusters">{first}</div>')
            messages += others
        return messages

    def changes(self, since: int, namespaces: Collection[str] | None) -> list[str] | None:
        """Return messages that bring a page of version `since` up to date; None when it is too old
        for that.
        """
        if not self._floor <= since <= self.version:
            return None
        changes = _Messages()
        for gone in self._gone:
            if gone.version > since and (namespaces is None or gone.namespace in namespaces):
                changes.add(_removal(gone.id))
        before = ""
        for section in self._seen(namespaces):
            if section.born > since:
                first, *others = _in_batches(section)
                where = f"afterend:#{before}" if before else "afterbegin:#clusters"
                changes.alone(f'{_removal(section.id)}<div hx-swap-oob="{where}">{first}</div>')
                changes.alone(*others)
            elif section.shaped > since:
                first, *others = _in_batches(section)
                changes.alone(_swapped(first, "outerHTML"))
                changes.alone(*others)
            elif section.latest > since:
                _note_changes(section, since, changes)
            before = section.id
        return changes.messages

    def _new(self, cluster: model.Cluster) -> Section:
        key, version = key_of(cluster.namespace, cluster.name), self._drawing
        top = self._piece(top_of(cluster), None, self._drawer.top)
        section = Section(key, cluster, top, version, version, version)
        numbers = range(len(cluster.groups))
        section.parts = [self._part(section, cluster, number, None) for number in numbers]
        return section

    def _update(self, section: Section, cluster: model.Cluster) -> None:
        before = [group.name for group in section.cluster.groups]
        section.latest = self._drawing
        section.top = self._piece(top_of(cluster), section.top, self._drawer.top)
        if [group.name for group in cluster.groups] != before:
            section.parts = []
            section.shaped = self._drawing
        old: Sequence[Part | None] = section.parts or [None] * len(cluster.groups)
        parts = [self._part(section, cluster, number, part) for number, part in enumerate(old)]
        section.cluster, section.parts = cluster, parts  # not before all of it was drawn

    def _part(
        self, section: Section, cluster: model.Cluster, number: int, old: Part | None
    ) -> Part:
        key = section.key
        group = cluster.groups[number]
        top = self._piece(
            group_top(key, number, cluster), old.top if old else None, self._drawer.group
        )
        part = Part(f"r-{key}-{number}", top, len(group.replicas) > COMPACT)
        known = old.rows if old else {}
        for row_id, replica, what in rows_of(key, number, cluster):
            source = replica, what, group.hosts
            row = known.get(row_id)
            if row is not None and row.source == source:
                part.rows[row_id] = row
                continue
            html = self._drawer.row(row_of(row_id, cluster, group, replica, what))
            born = row.born if row else self._drawing
            part.rows[row_id] = Piece(source, html, born, self._drawing)
        stay = [each for each in part.rows if each in known]
        moved = [each for each in known if each in part.rows] != stay
        if moved or (old is not None and old.compact != part.compact):
            section.shaped = self._drawing
        for row_id in known:
            if row_id not in part.rows:
                self._forget(cluster.namespace, row_id)
        return part

    def _piece(self, source: S, old: Piece | None, draw: Callable[[S], str]) -> Piece:
        if old is not None and old.source == source:
            return old
        return Piece(source, draw(source), old.born if old else self._drawing, self._drawing)

    def _forget(self, namespace: str, element: str) -> None:
        if len(self._gone) == REMEMBERED:
            self._floor = self._gone[0].version
        self._gone.append(Gone(self._drawing, namespace, element))

    def _seen(self, namespaces: Collection[str] | None) -> list[Section]:
        if namespaces is None:
            return self._order
        return [each for each in self._order if each.cluster.namespace in namespaces]


class _Messages:
    """Collects changes into messages of a bounded number of pieces."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._open: list[str] = []

    @property
    def messages(self) -> list[str]:
        """All messages."""
        self._close()
        return self._done

    def add(self, html: str) -> None:
        """Add a change that may share a message."""
        self._open.append(html)
        if len(self._open) >= BATCH:
            self._close()

    def alone(self, *messages: str) -> None:
        """Add changes that are messages by themselves, and refer to what stands before them."""
        self._close()
        self._done += messages

    def _close(self) -> None:
        if self._open:
            self._done.append("".join(self._open))
            self._open = []


def _note_changes(section: Section, since: int, changes: _Messages) -> None:
    """Add what has changed within a RayCluster."""
    if section.top.changed > since:
        changes.add(_swapped(section.top.html, "outerMorph"))
    for part in section.parts:
        if part.top.changed > since:
            changes.add(_swapped(part.top.html, "outerMorph"))
        where, new = f"afterbegin:#{part.id}", dict[str, Piece]()
        for row_id, row in part.rows.items():
            if row.born > since:
                new[row_id] = row
                continue
            _insert(new, where, changes)
            where, new = f"afterend:#{row_id}", {}
            if row.changed > since:
                changes.add(_swapped(row.html, "outerMorph"))
        _insert(new, where, changes)


def _insert(rows: dict[str, Piece], where: str, changes: _Messages) -> None:
    """Add rows that come behind each other. A browser that has one of them already, because its
    connection broke in between, loses it first.
    """
    for batch in _batches(list(rows.items())):
        removals = "".join(_removal(row_id) for row_id, _ in batch)
        html = "".join(row.html for _, row in batch)
        changes.alone(f'{removals}<ul hx-swap-oob="{where}">{html}</ul>')
        where = f"afterend:#{batch[-1][0]}"


def _whole(section: Section) -> str:
    return _framed(section, [[row.html for row in part.rows.values()] for part in section.parts])


def _in_batches(section: Section) -> Iterator[str]:
    """Yield a section with its first rows, then the others as messages that add them."""
    first, rest = [], []
    room = BATCH
    for part in section.parts:
        rows = [row.html for row in part.rows.values()]
        first.append(rows[:room])
        rest.append((part, rows[room:]))
        room = max(0, room - len(rows))
    yield _framed(section, first)
    for part, rows in rest:
        for batch in _batches(rows):
            yield f'<ul hx-swap-oob="beforeend:#{part.id}">{"".join(batch)}</ul>'


def _framed(section: Section, rows: Sequence[Sequence[str]]) -> str:
    groups = "".join(_group(part, each) for part, each in zip(section.parts, rows, strict=True))
    return (
        f'<section class="cluster" id="{section.id}" aria-labelledby="n-{section.key}">'
        f"{section.top.html}{groups}</section>"
    )


def _group(part: Part, rows: Sequence[str]) -> str:
    form, number = "compact" if part.compact else "lines", part.id.removeprefix("r-")
    return (
        f'<div class="group">{part.top.html}<ul class="rows {form}" id="{part.id}" tabindex="0"'
        f' aria-labelledby="h-{number}">{"".join(rows)}</ul></div>'
    )


def _swapped(html: str, how: str) -> str:
    """Return a piece as a change that takes the place of the element of its id."""
    name, _, rest = html.partition(" ")
    return f'{name} hx-swap-oob="{how}" {rest}'


def _removal(element: str) -> str:
    return f'<i id="{element}" hx-swap-oob="delete"></i>'


def _batches(items: Sequence[S]) -> Iterator[Sequence[S]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]
