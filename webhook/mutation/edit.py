"""Edits: changes of a pod with their reasons. Mutators create edits, and `fold` converts them to a
patch.
"""

from typing import Any, Final

from msgspec import Struct

from webhook.api.objects import Strings

Value = str | int | Strings
"""Values for a field of `spec`."""


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
    """Set a field of `spec` to a value: a text, a number, or a map of one key."""

    name: str
    value: Value
    why: str


class SetEnv(Struct, frozen=True, gc=False):
    """Set a container's variable to a value, or to the field of the pod at `field_path`.

    `slot` is the index of the entry to replace, or -1 to add the variable: at the front of `env`,
    or directly after the entry `after`, which its value refers to. With both, the entry moves
    there.
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
    """Append an entry to `resizePolicy` of a container: `resource` can be resized without a
    restart.
    """

    container: str
    resource: str
    why: str


class AddClaim(Struct, frozen=True, gc=False):
    """Add a resource claim from a template to the pod, and to the containers at these paths."""

    name: str
    template: str
    containers: tuple[str, ...]
    why: str


class SetPreStop(Struct, frozen=True, gc=False):
    """Set the `preStop` command of a container without hooks.

    With `has_lifecycle`, the container has a `lifecycle`, whose other fields are kept.
    """

    container: str
    command: tuple[str, ...]
    why: str
    has_lifecycle: bool


class SetAmount(Struct, frozen=True, gc=False):
    """Set the amount of a resource in the `requests` or `limits` of a container that has it."""

    container: str
    kind: str
    resource: str
    value: str | float
    why: str


class Warn(Struct, frozen=True, gc=False):
    """Change nothing; warn the user of a value that cannot be right."""

    text: str


class Note(Struct, frozen=True, gc=False):
    """Change nothing, without a warning; explain why a value is omitted."""

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
    | SetAmount
)

Edit = Change | Warn | Note
