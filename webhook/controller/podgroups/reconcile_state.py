"""The reconcile state of one RayCluster: what was last brought about, and when to look
again.
"""

from math import inf
from typing import Final

from msgspec import Struct, field

from webhook.controller.podgroups.podgroup_store import Named
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.pod_groups import Occupied
from webhook.kubeclient.timeouts import Backoff, Clock, PublishingTiming

_NEVER: Final = inf


class ReconcileState(Struct):
    """Kept for a RayCluster that wants scheduling groups, or may have some. Times are monotonic, in
    seconds.
    """

    retries: Backoff
    looks: Backoff
    reconciled: tuple[RayClusterConfig, Occupied] | None = None
    """What was brought about, as far as it can be now; None when something is to be done."""
    hold: float = 0.0
    """Nothing is tried before this, after a failure."""
    refused: RayClusterConfig | None = None
    """Facts for which the API server refused something: others are tried at once, since
    the change may have fixed it.
    """
    look: float = _NEVER
    """Another look is due at this, for what only time can change."""
    running: bool = False
    names: set[Named] = field(default_factory=set)
    """Objects that are looked up by their names, as we could not create them."""
    foreign: tuple[str, ...] = ()
    """Names that objects of others have."""
    trouble: str = ""

    def due(self, facts: RayClusterConfig, taken: Occupied, now: float) -> bool:
        """Return whether there is something to do now."""
        fixed = self.refused is not None and self.refused is not facts
        if self.running or (now < self.hold and not fixed):
            return False
        if self.reconciled is None or now >= self.look:
            return True
        return self.reconciled[0] is not facts or self.reconciled[1] != taken

    def over(self, facts: RayClusterConfig) -> bool:
        """Return whether all was done for a RayCluster that wants nothing any more."""
        done = self.reconciled is not None and self.reconciled[0] is facts and self.look == _NEVER
        return done and not self.running

    def failed(self, now: float, at_least: float, refused: RayClusterConfig | None = None) -> None:
        """Note a failure: a retry is due after a delay that grows, and that starts again from the
        shortest for other facts.

        `refused` are the facts that the failure came from, None when the API server is in trouble.
        """
        if refused is not None and self.refused is not None and refused is not self.refused:
            self.retries.reset()
        self.refused = refused
        self.reconciled = None
        self.hold = now + self.retries.next(at_least)

    def record(self, what: tuple[RayClusterConfig, Occupied], now: float, *, waits: bool) -> None:
        """Note that nothing more can be done now. Another look is due later if something is still
        missing.
        """
        if self.reconciled != what:
            self.looks.reset()
        self.retries.reset()
        self.refused = None
        self.reconciled = what
        self.look = now + self.looks.next() if waits else _NEVER


def new_state(timing: PublishingTiming, world: Clock) -> ReconcileState:
    """Return the state of a RayCluster about which nothing is known."""
    return ReconcileState(
        Backoff(timing.first_delay, timing.longest_delay, world.random),
        Backoff(timing.first_look, timing.longest_delay, world.random),
    )
