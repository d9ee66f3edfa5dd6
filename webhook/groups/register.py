"""Registers: what an admitted or deleted pod means for the membership, with a cluster to watch and without one."""

from webhook.groups.membership import Membership
from webhook.groups.seat import GroupKey, Seat


class StandaloneRegister:
    """Keeps a `Membership` by reviews alone."""

    def __init__(self, members: Membership) -> None:
        self._members = members
        self._pods: dict[tuple[GroupKey, Seat], str] = {}

    def admitted(self, request_uid: str, key: GroupKey, seat: Seat, now: float) -> None:
        """Record the pod of a review, or one read from a file; of one seat only the first, as a reinvocation repeats it."""
        del now  # a pod that counts as created does not expire
        if self._pods.setdefault((key, seat), request_uid) is request_uid:
            self._members.put(request_uid, key, seat)

    def deleted(self, key: GroupKey, seat: Seat) -> None:
        """Forget the pod in a seat."""
        pod = self._pods.pop((key, seat), None)
        if pod is not None:
            self._members.remove(pod)


class AssumingRegister:
    """Assumes a seat until the watch shows its pod; deletions are the watch's to tell."""

    def __init__(self, members: Membership) -> None:
        self._members = members

    def admitted(self, request_uid: str, key: GroupKey, seat: Seat, now: float) -> None:
        """Assume the seat of a pod that was admitted."""
        del request_uid  # the watch confirms by seat: the pod has no name or uid yet
        self._members.assume(key, seat, now)

    def deleted(self, key: GroupKey, seat: Seat) -> None:
        """Do nothing: the API server may still refuse the deletion."""
