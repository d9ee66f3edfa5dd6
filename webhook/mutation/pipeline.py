"""The mutators, in order, and the edits they make together."""

from collections.abc import Callable
from typing import Final

from webhook.mutation import affinity, labels, megascale, network, rendezvous, resize, scheduling, shards, tpu
from webhook.mutation.edit import Edit
from webhook.mutation.worker import Replica, Worker

SHARED: Final[tuple[Callable[[Replica], list[Edit]], ...]] = (
    labels.shared,
    network.shared,
    tpu.shared,
    megascale.shared,
    rendezvous.shared,
    shards.shared,
    affinity.shared,
    scheduling.shared,
    resize.shared,
)
"""What all hosts of a replica receive alike."""

HEAD: Final[tuple[Callable[[Replica], list[Edit]], ...]] = (shards.shared, scheduling.shared, resize.shared)
"""What the head of a RayCluster receives."""

OWN: Final[tuple[Callable[[Worker], list[Edit]], ...]] = (labels.own, network.own, tpu.own, rendezvous.own)
"""What one host receives for itself."""


def own_edits(worker: Worker) -> list[Edit]:
    """Return the edits that one pod gets before those it shares."""
    return [] if worker.replica.head else [edit for mutator in OWN for edit in mutator(worker)]


def shared_edits(replica: Replica) -> list[Edit]:
    """Return the edits that every pod of a replica gets."""
    return [edit for mutator in (HEAD if replica.head else SHARED) for edit in mutator(replica)]
