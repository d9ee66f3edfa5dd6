"""Shell text: the parts that bash replaces or acts on, and a text as one argument of `bash -c`."""

import re
from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

Kind = Literal["operator", "redirection", "expansion", "comment", "parenthesis", "quote"]

_EXPANSION: Final = r"`|\$(?:\(|\{[^}]*\}?|\w+|[@*#?!$-])"
_TOKEN: Final = re.compile(
    rf"""
    (?P<skipped>
        \\. | [0-9]?[<>]&[0-9] | '[^']*' | \$'(?:\\.|[^'\\])*' | \$?"(?P<double>(?:\\.|[^"\\])*)"
    )
    | (?P<expansion>{_EXPANSION})
    | (?P<comment>(?<![^\s;&|()])\#[^\n]*)
    | (?P<redirection>&>>?|[0-9]{{0,3}}(?:>[>|&]?|<<<|<<-?|<[>&]?))
    | (?P<operator>&&|\|\||;;|\|&|[;&|\n])
    | (?P<parenthesis>[()])
    | (?P<quote>['"])
    """,
    re.VERBOSE | re.DOTALL,
)
_EXPANSIONS: Final = re.compile(_EXPANSION)
_ESCAPED: Final = re.compile(rf"\\.|{_EXPANSION}", re.DOTALL)
_NAME: Final = re.compile(r"\$\{?[#!]?(\w+)")
_KEYWORDS: Final = frozenset({
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "function", "{", "}",
})  # fmt: skip
_JOINERS: Final = ("&", "|", ";")


class Mark(Struct, frozen=True):
    """A part of a text that bash does not pass on as it is written."""

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def variable(self) -> str:
        """The name of the variable that is expanded; empty for a command."""
        name = _NAME.match(self.text)
        return name[1] if name else ""


def read_marks(text: str) -> Iterator[Mark]:
    """Yield the marks of a command, up to the first command substitution or open quote, whose end
    is unknown. A copy of a file descriptor, such as `2>&1`, is no mark.
    """
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind in ("skipped", "double"):
            offset = token.start("double")
            for expansion in _ESCAPED.finditer(token["double"] or ""):
                if not expansion[0].startswith("\\"):
                    yield _expansion(expansion, offset)
        elif kind == "expansion":
            yield _expansion(token, 0)
            if token[0] in ("`", "$("):
                return
        else:
            yield Mark(kind, token[0], *token.span())  # type: ignore[arg-type] # a group's name
            if kind == "quote":
                return


def read_expansions(text: str) -> Iterator[Mark]:
    """Yield the expansions of a text that stands in double quotes, in which JSON and Go escape
    backslashes, so that none escapes a `$`.
    """
    return (_expansion(expansion, 0) for expansion in _EXPANSIONS.finditer(text))


def wrap_in_bash(text: str) -> str:
    """Return `bash -c` with the text as one argument that Ray's submission passes on unchanged;
    empty if quotes cannot protect it, as with `$` and backslashes, or it is a longer script.
    """
    line = _one_line(text)
    if not line or any(character in line for character in "$`\\"):
        return ""
    if "'" not in line:
        return f"bash -c '{line}'"
    return "" if '"' in line else f'bash -c "{line}"'


def _one_line(text: str) -> str:
    """Return lines as one, which stops at the first failure; empty for compound commands."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if len(lines) > 1 and any(line[0] == "#" or line.split()[0] in _KEYWORDS for line in lines):
        return ""
    joined = "".join(f"{line}{' ' if line.endswith(_JOINERS) else ' && '}" for line in lines)
    return joined.removesuffix(" && ").strip()


def _expansion(found: re.Match[str], offset: int) -> Mark:
    return Mark("expansion", found[0], found.start() + offset, found.end() + offset)
