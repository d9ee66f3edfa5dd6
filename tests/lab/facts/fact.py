"""A fact copied from another project: our value, their value, and its location in our code."""

import ast
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests import ROOT


class Missing:
    """Stands for what is not there."""

    def __repr__(self) -> str:
        return "nothing"


MISSING: Final = Missing()


@dataclass(frozen=True)
class Fact:
    """`place` is `module:name` of ours; `ahead` says why a difference is expected."""

    place: str
    what: str
    ours: Any
    theirs: Any
    ahead: str = ""

    @property
    def differs(self) -> bool:
        """Whether ours is not theirs."""
        return bool(self.ours != self.theirs)

    def __str__(self) -> str:
        return (
            f"{position(self.place)}: {self.what}: here {_shown(self.ours)}, there "
            f"{_shown(self.theirs)}"
        )


def value(place: str) -> Any:  # noqa: ANN401 - of any type
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def position(place: str) -> str:
    module, _, name = place.partition(":")
    path = Path(str(importlib.import_module(module).__file__))
    for node in ast.parse(path.read_text()).body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return f"{path.relative_to(ROOT)}:{node.lineno} {name}"
    raise LookupError(f"{path} does not assign {name}")


def covers(place: str, what: str, ours: set[str], theirs: set[str], ahead: str = "") -> Fact:
    """A fact that ours has at least all of theirs: what it lacks is shown alone."""
    lacking = sorted(theirs - ours)
    return Fact(place, what, f"without {', '.join(lacking)}" if lacking else "all", "all", ahead)


def known(place: str, what: str, ours: set[str], theirs: set[str], ahead: str = "") -> Fact:
    """A fact that theirs has at least all of ours: what they do not have is shown alone."""
    unknown = sorted(ours - theirs)
    return Fact(
        place, what, f"{', '.join(unknown)} too" if unknown else "no more", "no more", ahead
    )


def _shown(found: object) -> str:
    return repr(sorted(found, key=str) if isinstance(found, set | frozenset) else found)
