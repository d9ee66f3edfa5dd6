"""The mutators, in order, and the edits they make together."""

from collections.abc import Callable
from typing import Final

from webhook.mutation.affinity import affinity
from webhook.mutation.edit import Edit
from webhook.mutation.gpu import gpu
from webhook.mutation.labels import labels
from webhook.mutation.megascale import megascale
from webhook.mutation.network import network
from webhook.mutation.tpu import tpu
from webhook.mutation.worker import Worker

MUTATORS: Final[tuple[Callable[[Worker], list[Edit]], ...]] = (labels, network, tpu, megascale, gpu, affinity)


def edits_for(worker: Worker) -> list[Edit]:
    """Return every edit of a worker pod, in the order in which the mutators stand."""
    return [edit for mutator in MUTATORS for edit in mutator(worker)]
