"""The response for a pod, computed without a cache.

See docs/contributing/decisions/0022-one-patch-left-open.md.
"""

from webhook.api.review import Answer, Denied
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.fold import Operation, encode, fold
from webhook.mutation.pipeline import host_edits, replica_edits
from webhook.mutation.preconditions import obstacles
from webhook.mutation.ray_pod import Replica, Worker


def edits(replica: Replica, host: int) -> list[Edit]:
    """Return the edits of a host: its own, then those of all hosts of its replica.

    Raises Denied with every reason why the replica cannot work.
    """
    found = obstacles(replica)
    if found:
        raise Denied(*found.values(), rules=tuple(found))
    return host_edits(Worker(replica, host)) + replica_edits(replica)


def operations(replica: Replica, host: int) -> list[Operation]:
    """Return the JSON Patch of a host. Raises Denied."""
    return fold(replica, edits(replica, host))


def answer(replica: Replica, host: int) -> Answer:
    """Return the response for a host, without a patch if nothing changes. Raises Denied."""
    made = edits(replica, host)
    warnings = tuple([edit.text for edit in made if type(edit) is Warn])
    patch = fold(replica, made)
    return Answer((), encode(patch) if patch else None, warnings)
