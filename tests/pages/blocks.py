"""The commands in the blocks of pages."""

import re
import shlex
from typing import Final, NamedTuple

from tests import ROOT

PAGES: Final = [
    page
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("*/**/README.md"))
    if page.name != "tutorial.md" and not {".venv", ".cache"} & {*page.relative_to(ROOT).parts}
]
"""All pages but the tutorial, whose commands tests/e2e/test_tutorial.py runs."""


class Command(NamedTuple):
    """A command of a page."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)


def commands() -> list[Command]:
    found = []
    for page in PAGES:
        blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
        for text in (block for language, block in blocks if language in ("", "sh")):
            joined = re.sub(r"\s*\\\n\s*", " ", text)
            found += [
                Command(str(page.relative_to(ROOT)), line.strip())
                for line in joined.splitlines()
                if line.strip()
            ]
    return found


COMMANDS: Final = commands()


def kubectl_words(start: str, **values: str) -> list[str]:
    """Return the arguments of the only kubectl command that begins so, with values for words."""
    ((program, *words),) = (each.words for each in COMMANDS if each.text.startswith(start))
    assert program == "kubectl"
    return [values.get(word, word) for word in words]
