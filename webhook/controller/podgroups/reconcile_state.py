"""The reconcile state of one RayCluster: the last reconciled state and the next due time."""

from math import inf
from typing import Final

from msgspec import Struct, field

from webhook.controller.podgroups.podgroup_store import Named
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.pod_groups import Occupied
from webhook.kubeclient.timeouts import Backoff, Clock, PublishingTiming

_NEVER: Final = inf


class ReconcileState(Struct):
    """State of a RayCluster that requests or may own pod groups. Times are monotonic seconds."""

    retries: Backoff
    looks: Backoff
    reconciled: tuple[RayClusterConfig, Occupied] | None = None
    """The last reconciled input, None while a reconciliation is due."""
    hold: float = 0.0
    """The earliest time of a retry after a failure."""
    refused: RayClusterConfig | None = None
    """The configuration for which the API server refused a request. Another configuration is tried
    at once, since the change may have fixed the error."""
    look: float = _NEVER
    """The time of the next reconciliation for changes that no watch reports."""
    running: bool = False
    names: set[Named] = field(default_factory=set)
    """Objects to get by name, since creating them was a conflict."""
    foreign: tuple[str, ...] = ()
    """Desired names that are in use by objects of other owners."""
    trouble: str = ""

    def due(self, facts: RayClusterConfig, taken: Occupied, now: float) -> bool:
        """Return whether a reconciliation is due."""
        fixed = self.refused is not None and self.refused is not facts
        if self.running or (now < self.hold and not fixed):
            return False
        if self.reconciled is None or now >= self.look:
            return True
        return self.reconciled[0] is not facts or self.reconciled[1] != taken

    def over(self, facts: RayClusterConfig) -> bool:
        """Return whether a RayCluster that requests no pod groups is fully cleaned up."""
        done = self.reconciled is not None and self.reconciled[0] is facts and self.look == _NEVER
        return done and not self.running

    def failed(self, now: float, at_least: float, refused: RayClusterConfig | None = None) -> None:
        """Record a failure and schedule a retry with exponential backoff, which is reset when the
        configuration changes.

        `refused` is the configuration that caused the failure, None if the API server itself
        failed.
        """
        if refused is not None and self.refused is not None and refused is not self.refused:
            self.retries.reset()
        self.refused = refused
        self.reconciled = None
        self.hold = now + self.retries.next(at_least)

    def record(self, what: tuple[RayClusterConfig, Occupied], now: float, *, waits: bool) -> None:
        """Record a reconciliation; if `waits`, schedule another for missing objects."""
        if self.reconciled != what:
            self.looks.reset()
        self.retries.reset()
        self.refused = None
        self.reconciled = what
        self.look = now + self.looks.next() if waits else _NEVER


def new_state(timing: PublishingTiming, world: Clock) -> ReconcileState:
    """Return the initial state of a RayCluster."""
    return ReconcileState(
        Backoff(timing.first_delay, timing.longest_delay, world.random),
        Backoff(timing.first_look, timing.longest_delay, world.random),
    )
