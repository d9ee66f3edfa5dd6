"""The gate: whether reviews are answered now, and if not, why."""

from collections.abc import Callable
from dataclasses import dataclass, field

Condition = Callable[[], bool]


@dataclass
class Gate:
    """Open when every named condition holds and the process is not draining: a conjunction that can be read."""

    conditions: dict[str, Condition] = field(default_factory=dict)
    draining: bool = False

    def report(self) -> dict[str, bool]:
        """Return each condition with its state, draining included."""
        return {**{name: condition() for name, condition in self.conditions.items()}, "not draining": not self.draining}

    def closed(self) -> str | None:
        """Return why no review can be answered now, or None when they can."""
        if self.draining:
            return "shutting down"
        for name, condition in self.conditions.items():
            if not condition():
                return f"not ready: waiting for {name}"
        return None
