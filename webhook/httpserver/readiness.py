"""Readiness: whether reviews are answered, and if not, why."""

from collections.abc import Callable
from dataclasses import dataclass, field

Condition = Callable[[], bool]


@dataclass
class Readiness:
    """Open while every named condition holds; ready if, in addition, the process is not
    draining.
    """

    conditions: dict[str, Condition] = field(default_factory=dict)
    details: dict[str, Callable[[], str]] = field(default_factory=dict)
    """Details of the condition of the same name, or additional lines."""
    draining: bool = False

    @property
    def ready(self) -> bool:
        """Return whether the process should receive requests; false while draining, although
        requests are still answered.
        """
        return not self.draining and self.closed() is None

    def report(self) -> dict[str, bool]:
        """Return each condition with its state, including draining."""
        return {
            **{name: condition() for name, condition in self.conditions.items()},
            "not draining": not self.draining,
        }

    def lines(self, *, verbose: bool) -> list[str]:
        """Return a line for each condition, `[+]` if it holds and `[-]` if it does not."""
        texts = {name: text() for name, text in self.details.items()} if verbose else {}
        report = self.report()
        return [
            f"[{'+' if holds else '-'}] {name}{': ' if name in texts else ''}{texts.get(name, '')}"
            for name, holds in report.items()
        ] + [f"{name}: {text}" for name, text in texts.items() if name not in report]

    def closed(self) -> str | None:
        """Return why no review can be answered, or None if reviews are answered, also while
        draining.
        """
        for name, condition in self.conditions.items():
            if not condition():
                return f"not ready: waiting for {name}"
        return None
