"""Updates of an open page: messages that replace the changed parts."""

from collections.abc import Mapping
from hashlib import sha256
from re import compile as pattern
from typing import Final

from msgspec import Struct

_LINES: Final = pattern(r"\r\n|\r|\n")


class Shown(Struct, frozen=True):
    """The content of a page: RayClusters by the ids of their elements, in order, and the other
    elements, each with the way in which it is replaced.
    """

    sections: Mapping[str, str]
    around: Mapping[str, str]

    @property
    def html(self) -> str:
        """The list of RayClusters."""
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
        known: Mapping[str, str] = before.around if before else {}
        messages = [_replacing(html, how) for html, how in self.around.items() if html not in known]
        if before is None or list(before.sections) != list(self.sections):
            return [f'<div id="clusters" hx-swap-oob="innerMorph">{self.html}</div>', *messages]
        changed = (html for key, html in self.sections.items() if before.sections[key] != html)
        return [*(_replacing(html, "outerMorph") for html in changed), *messages]


def framed(html: str, version: str) -> bytes:
    """Return one message of the stream, whatever text of tenants `html` contains."""
    lines = "".join(f"data: {line}\n" for line in _LINES.split(html))
    return (f"id: {version}\n{lines}\n" if version else f"{lines}\n").encode()


def _replacing(html: str, how: str) -> str:
    name, _, rest = html.lstrip().partition(" ")
    return f'{name} hx-swap-oob="{how}" {rest}'
