"""A minimal browser: parses HTML, and applies server-sent events as htmx does."""

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Self

_VOID = frozenset({"meta", "link", "input", "br"})


class Element:
    """An element with its attributes, and its children: elements and texts."""

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.attributes = attributes
        self.children: list[Element | str] = []

    def __iter__(self) -> Iterator[Self]:
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child  # type: ignore[misc]  # they are of one class

    @property
    def elements(self) -> "list[Element]":
        return [child for child in self.children if isinstance(child, Element)]

    @property
    def text(self) -> str:
        """All text within, its white space as one blank."""
        parts = (c if isinstance(c, str) else c.text for c in self.children)
        return " ".join(" ".join(parts).split())

    @property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    def every(self, name: str, of_class: str = "") -> "list[Element]":
        found = (each for each in self if each.name == name)
        return [each for each in found if not of_class or of_class in each.classes]

    def by_id(self, identity: str) -> "list[Element]":
        """Return the elements with an id; more than one is a defect."""
        return [each for each in self if each.attributes.get("id") == identity]

    def shown(self) -> object:
        """Return what can be compared: names, attributes, texts."""
        inner = [
            c.shown() if isinstance(c, Element) else " ".join(c.split()) for c in self.children
        ]
        return self.name, self.attributes, [each for each in inner if each]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("root", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().name == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)

    def whole(self) -> Element:
        """Return what was parsed. Fails when something is left open."""
        self.close()
        assert self._open == [self.root], [each.name for each in self._open]
        return self.root


def parsed(html: str) -> Element:
    parser = _Parser()
    parser.feed(html)
    return parser.whole()


class Tab:
    """A page that takes in messages."""

    def __init__(self, html: str) -> None:
        self.root = parsed(html)

    def take(self, message: str) -> None:
        """Take in a message: what each part is about is found first, as htmx does."""
        tasks = [
            (part, self._target(part))
            for part in parsed(message).elements
            if "hx-swap-oob" in part.attributes
        ]
        for part, target in tasks:
            if target is not None:
                self._swap(part, target)

    def _target(self, part: Element) -> Element | None:
        found = self.root.by_id(part.attributes["id"])
        assert len(found) <= 1, f"{part.attributes['id']} is there more than once"
        return found[0] if found else None

    def _swap(self, part: Element, target: Element) -> None:
        how = part.attributes.pop("hx-swap-oob")
        if how == "innerMorph":
            target.children = part.children
        else:
            assert how == "outerMorph", how
            (siblings,) = [each.children for each in self.root if target in each.children]
            siblings[siblings.index(target)] = part
