"""The gate: whether reviews are answered now, and if not, why."""

from collections.abc import Callable
from dataclasses import dataclass, field

Condition = Callable[[], bool]


@dataclass
class Readiness:
    """Open while every named condition holds; ready when, beside, the process is not draining. A
    conjunction that can be read.
    """

    conditions: dict[str, Condition] = field(default_factory=dict)
    details: dict[str, Callable[[], str]] = field(default_factory=dict)
    """What more there is to say of a condition of the same name, or of something that is none."""
    draining: bool = False

    @property
    def ready(self) -> bool:
        """Whether it should be asked: not while draining, although it still answers then."""
        return not self.draining and self.closed() is None

    def report(self) -> dict[str, bool]:
        """Return each condition with its state, draining included."""
        return {
            **{name: condition() for name, condition in self.conditions.items()},
            "not draining": not self.draining,
        }

    def lines(self, *, verbose: bool) -> list[str]:
        """Return a line for each condition, `[+]` when it holds and `[-]` when it does not."""
        texts = {name: text() for name, text in self.details.items()} if verbose else {}
        report = self.report()
        return [
            f"[{'+' if holds else '-'}] {name}{': ' if name in texts else ''}{texts.get(name, '')}"
            for name, holds in report.items()
        ] + [f"{name}: {text}" for name, text in texts.items() if name not in report]

    def closed(self) -> str | None:
        """Return why no review can be answered now, or None when they can, which they can while
        draining too.
        """
        for name, condition in self.conditions.items():
            if not condition():
                return f"not ready: waiting for {name}"
        return None
