"""Findings: a problem of a field, the rule that reports it, and the enforcement action."""

import re
from typing import Final, Literal

from msgspec import Struct

from webhook.api.review import INVALID
from webhook.validation.field import Field

Level = Literal["off", "warn", "deny"]
KubeRay = tuple[int, int]
"""A release of KubeRay (major, minor)."""

OFF: Final = "off"
WARN: Final = "warn"
DENY: Final = "deny"

_VALUE: Final = re.compile(r"""(?:'[^']*'|"[^"]*"|-?[0-9.]+)[:,] """)
"""The beginning of a message that starts with the value found."""

ALWAYS: Final = (0, 0)
"""The release of a check that all releases of KubeRay make."""


class Fault(Struct, frozen=True):
    """The result of a rule: the field, the value to write instead, and the Kubernetes cause type.

    A `doubtful` fault is a warning at most: whether the value is wrong depends on facts outside the
    object. `since` is the first release of KubeRay with this fault, if the rule has none.
    """

    field: Field
    message: str
    reason: str = INVALID
    doubtful: bool = False
    since: KubeRay = ALWAYS


class Finding(Struct, frozen=True):
    """A fault with its rule and the enforcement action of the rule."""

    rule: str
    level: Level
    field: Field
    message: str
    reason: str

    @property
    def path(self) -> str:
        """The path of the field, such as `spec.workerGroupSpecs[2].numOfHosts`."""
        return self.field.path

    @property
    def named(self) -> str:
        """The message, preceded by the name of the field if its first part does not contain the
        name.
        """
        name = self.field.called
        if not name or name in self.message.partition(": ")[0]:
            return self.message
        return f"{name}{' is' if _VALUE.match(self.message) else ':'} {self.message}"

    @property
    def text(self) -> str:
        """The message, preceded by the part of the object that contains the field."""
        subject = self.field.subject
        return f"{subject}: {self.named}" if subject else self.named

    @property
    def place(self) -> tuple[object, ...]:
        """The rule and the field, equal in all versions of an object."""
        return (self.rule, self.field.identity)
