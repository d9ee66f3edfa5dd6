"""Generated pages, with prose folded to 100 columns as on all pages."""

import re
import textwrap
from collections.abc import Iterator
from typing import Final

COLUMNS: Final = 100
_ITEM: Final = re.compile(r" *(?:- |\d+\. )?")
_STARTS: Final = re.compile(r" *(?:- |\d+\. |[#|<>]|```|$)")
"""What begins a line that does not continue with the one before."""


def explained(text: str) -> tuple[str, str, str]:
    """Return the first paragraph of a docstring, those between, and the last one: its source."""
    paragraphs = [" ".join(part.split()) for part in text.strip().split("\n\n")]
    return paragraphs[0], " ".join(paragraphs[1:-1]), paragraphs[-1]


def prose(page: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither of a table nor of a block of code, with their places."""
    code = False
    for number, line in enumerate(page.split("\n")):
        fence = line.lstrip().startswith("```")
        code ^= fence
        if not (fence or code or line.startswith("|")):
            yield number, line


def folded(page: str) -> str:
    """Return the page with paragraphs folded from their first long line; headings are left."""
    lines = page.split("\n")
    long = [at for at, line in prose(page) if len(line) > COLUMNS and line[0] != "#"]
    for first in reversed(long):
        last = first + 1
        while last < len(lines) and not _STARTS.match(lines[last]):
            last += 1
        found = _ITEM.match(lines[first])
        item = found[0] if found else ""
        lines[first:last] = textwrap.wrap(
            " ".join(
                [lines[first][len(item) :], *(line.strip() for line in lines[first + 1 : last])]
            ),
            COLUMNS,
            initial_indent=item,
            subsequent_indent=" " * len(item),
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines)
