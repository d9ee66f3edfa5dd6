"""Findings: what is wrong with a field, which rule says so, and whether the object may pass."""

import re
from typing import Final, Literal

from msgspec import Struct

from webhook.api.review import INVALID
from webhook.validation.field import Field

Level = Literal["off", "warn", "deny"]
KubeRay = tuple[int, int]
"""A release of KubeRay."""

OFF: Final = "off"
WARN: Final = "warn"
DENY: Final = "deny"

_VALUE: Final = re.compile(r"""(?:'[^']*'|"[^"]*"|-?[0-9.]+)[:,] """)
"""What a message begins with that begins with the value that was found."""

ALWAYS: Final = (0, 0)
"""The release since which there is what every KubeRay does."""


class Fault(Struct, frozen=True):
    """What a rule yields: the field, what to write instead, and the Kubernetes cause type.

    One that is `doubtful` is a warning at most: whether it is wrong depends on what the object does
    not say. `since` is the release of KubeRay since which it is one, where the rule has none.
    """

    field: Field
    message: str
    reason: str = INVALID
    doubtful: bool = False
    since: KubeRay = ALWAYS


class Finding(Struct, frozen=True):
    """A fault with the rule that found it and the level that this rule has."""

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
        """The message, with the name of the field in front where its first part does not contain
        it.
        """
        name = self.field.called
        if not name or name in self.message.partition(": ")[0]:
            return self.message
        return f"{name}{' is' if _VALUE.match(self.message) else ':'} {self.message}"

    @property
    def text(self) -> str:
        """The message, with the part of the object that it is about in front."""
        subject = self.field.subject
        return f"{subject}: {self.named}" if subject else self.named

    @property
    def place(self) -> tuple[object, ...]:
        """Which rule it is of, and at which field, in all versions of an object."""
        return (self.rule, self.field.identity)
