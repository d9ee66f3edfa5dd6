"""Edits: what is changed in a pod, and why. Mutators make them, the fold writes them."""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from webhook.api.objects import Strings

Value = str | int | Strings
"""What a field of `spec` may become."""


class SetLabel(Struct, frozen=True, gc=False):
    """Add a label that the pod does not have."""

    key: str
    value: str
    why: str


class SetAnnotation(Struct, frozen=True, gc=False):
    """Add an annotation that the pod does not have."""

    key: str
    value: str
    why: str


class SetField(Struct, frozen=True, gc=False):
    """Give a field of `spec` a value: a text, a number, or a map of one key."""

    name: str
    value: Value
    why: str


class SetEnv(Struct, frozen=True, gc=False):
    """Give a container's variable a value, or the field of the pod at `field_path`.

    `slot` is the index of the entry to replace, or -1 to add the variable: at the front of `env`,
    or right behind the entry `after`, which its value refers to. With both, the entry moves there.
    """

    container: str
    name: str
    value: str
    why: str
    slot: int = -1
    field_path: str = ""
    after: int = -1


TOGETHER: Final = "podAffinity"
APART: Final = "podAntiAffinity"


class AppendTerm(Struct, frozen=True, gc=False):
    """Append a required term to `spec.affinity.<kind>`."""

    kind: str
    term: dict[str, Any]
    why: str


class AppendResizeRule(Struct, frozen=True, gc=False):
    """Append an entry to `resizePolicy` of a container: `resource` is resized without a restart."""

    container: str
    resource: str
    why: str


class AddClaim(Struct, frozen=True, gc=False):
    """Add a resource claim of a template to the pod, and to the containers at these paths."""

    name: str
    template: str
    containers: tuple[str, ...]
    why: str


class SetPreStop(Struct, frozen=True, gc=False):
    """Give a container without hooks a command that runs before it is stopped.

    With `beside`, the container has a `lifecycle`, whose other fields stay.
    """

    container: str
    command: tuple[str, ...]
    why: str
    beside: bool = False


class Warn(Struct, frozen=True, gc=False):
    """Change nothing; tell the user of something that cannot be right."""

    text: str


class Note(Struct, frozen=True, gc=False):
    """Change nothing and warn no one; say in an explanation why something is left out."""

    text: str


Change = (
    SetLabel
    | SetAnnotation
    | SetField
    | SetEnv
    | AppendTerm
    | AppendResizeRule
    | AddClaim
    | SetPreStop
)

Edit = Change | Warn | Note


def only_additions(edits: Iterable[Edit]) -> bool:
    """Return whether these edits add things, and nothing else.

    Then they are the same for every host and every replica but for numbers and names. What a value
    of the user has come to, a replacement or a warning, one of them may not need: the one for which
    the value is right.
    """
    return not any(
        type(edit) is Warn or (type(edit) is SetEnv and edit.slot >= 0) for edit in edits
    )
