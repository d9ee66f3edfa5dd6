"""The answer for one pod, worked out step by step: nothing is kept."""

from typing import NamedTuple

from webhook.kube.review import Answer, Denied
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.feasibility import obstacles
from webhook.mutation.fold import Operation, fold_in_turn, pieces
from webhook.mutation.pipeline import own_edits, shared_edits
from webhook.mutation.worker import Replica, Worker


class Edits(NamedTuple):
    """What one host receives for itself, and what all hosts of its replica receive."""

    own: list[Edit]
    shared: list[Edit]

    def all(self) -> list[Edit]:
        """Return every edit, in order."""
        return self.own + self.shared


def edits(replica: Replica, host: int) -> Edits:
    """Return the edits of one host. Raises Denied with each reason why the replica cannot work."""
    causes = obstacles(replica)
    if causes:
        raise Denied(*causes)
    return Edits(own_edits(Worker(replica, host)), shared_edits(replica))


def operations(replica: Replica, host: int) -> list[Operation]:
    """Return the JSON Patch of one host. Raises Denied."""
    own, shared = fold_in_turn(replica, *edits(replica, host))
    return own + shared


def answer(replica: Replica, host: int) -> Answer:
    """Return the answer for one host: a patch only when something changes. Raises Denied."""
    made = edits(replica, host)
    warnings = tuple([edit.text for edit in made.all() if type(edit) is Warn])
    return Answer((), pieces(*fold_in_turn(replica, *made)).packed(), warnings)
