"""Readiness over a window: objects that become ready and unready again within a minute.

A condition has the time of its last change only. A process that watches has received the changes
before; a single read has the events of kubelet about failed probes.
"""

from collections.abc import Iterable
from typing import Final

from webhook.objects.live_objects import Condition, LiveEvent

STEADY_SECONDS: Final = 60.0
"""An object that has been ready for this long is ready."""
_WINDOW_SECONDS: Final = 900.0
"""How long probes have to fail, and how old the last change is at most, in a single read."""
_RATE_SECONDS: Final = 360.0
"""kubelet repeats the event of a probe that fails every few seconds every five minutes.

https://github.com/kubernetes/client-go/blob/master/tools/record/events_cache.go
"""
_PROBE: Final = "Readiness probe "


class ReadinessHistory:
    """Since when objects have not been ready for a minute, by uid, from changes of `Ready`. Only
    objects that became unready within a minute are stored.
    """

    def __init__(self) -> None:
        self._begun: dict[str, float] = {}

    def follow(self, uid: str, old: Condition | None, new: Condition | None) -> None:
        """Handle a change of an object. `new` is None after its deletion."""
        if new is None:
            self._begun.pop(uid, None)
        elif old is not None and old.is_true and not new.is_true:
            ready, unready = old.since, new.since
            if ready is not None and unready is not None and unready - ready < STEADY_SECONDS:
                self._begun.setdefault(uid, ready)
            else:
                self._begun.pop(uid, None)

    def unsteady_since(self, uid: str, ready: Condition | None, now: float) -> float | None:
        """Return since when an object has not been ready for a minute; None if it is ready, or if
        it did not become ready in between.
        """
        return self._begun.get(uid) if ready is None or not is_steady(ready, now) else None


def is_steady(ready: Condition, now: float) -> bool:
    """Return whether an object has been ready for a minute, or for an unknown time."""
    return ready.is_true and (ready.since is None or now - ready.since >= STEADY_SECONDS)


def failing_since(events: Iterable[LiveEvent], ready: Condition | None, now: float) -> float | None:
    """Return since when the readiness probe of a pod fails again and again although its readiness
    changed in between, by the events of the pod; None if it does not, or is ready for a minute.
    """
    changed = ready.since if ready is not None else None
    if ready is None or changed is None or is_steady(ready, now) or now - changed > _WINDOW_SECONDS:
        return None
    for event in events:
        first, last = event.first, event.last
        if first is None or not event.message.startswith(_PROBE):
            continue
        lasting = changed - first >= _WINDOW_SECONDS - STEADY_SECONDS
        often = last - first <= _RATE_SECONDS * event.times
        if lasting and often and now - last <= 2 * _RATE_SECONDS:
            return first
    return None


def answer_of(events: Iterable[LiveEvent]) -> str:
    """Return the last answer of a readiness probe that failed; empty if there is none."""
    probes = [event for event in events if event.message.startswith(_PROBE)]
    return max(probes, key=lambda event: event.last).message if probes else ""
