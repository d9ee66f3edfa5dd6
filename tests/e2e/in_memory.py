"""`serve` with its claims in memory, as one process alone may keep them: what `tests.e2e.figures`
compares Leases with. `python -m tests.e2e.in_memory serve …`.
"""

import sys

from webhook.cli.main import main
from webhook.follow.claims import LeaseClaims
from webhook.groups.membership import Membership
from webhook.groups.memory import IndexMemory, SeatMemory
from webhook.groups.shards import Shards
from webhook.wiring import serve


def seats(members: Membership, _claims: LeaseClaims) -> SeatMemory:
    """Keep seats here."""
    return SeatMemory(members)


def indices(shards: Shards, _claims: LeaseClaims) -> IndexMemory:
    """Keep indices here."""
    return IndexMemory(shards)


if __name__ == "__main__":
    vars(serve).update(LeaseSeats=seats, LeaseIndices=indices)
    sys.exit(main(sys.argv[1:]))
