"""Which connections a port closes for a new one, and which clients it accepts."""

from collections import Counter
from collections.abc import Collection, Sequence
from math import inf
from typing import Any, Protocol, TypeVar

ClientAddress = tuple[str, int]


class ClientConnection(Protocol):
    """A connection as this module reads it."""

    client: ClientAddress | None
    born: float
    since: float
    proven: bool

    def idle_limit(self) -> float:
        """Return the client timeout in seconds, infinite while a response is being computed."""


ConnectionT = TypeVar("ConnectionT", bound=ClientConnection)


def excess_connections(
    new: ConnectionT, connections: Collection[ConnectionT], limit: int
) -> Sequence[ConnectionT]:
    """Return the connections to close because of `new`, which is one of `connections`: unproven
    ones with pending client timeouts, of the address with most connections, by age; otherwise the
    one that is idle longest. Half of `limit` is for one address.
    """
    addresses = {
        connection: connection.client and connection.client[0] for connection in connections
    }
    counts = Counter(addresses.values())
    crowded = len(addresses) > limit
    # One address must not use up all connections of a port.
    if not crowded and counts[addresses[new]] <= limit // 2:
        return ()
    crowd = [
        connection for connection in addresses if crowded or addresses[connection] == addresses[new]
    ]
    waiting = [
        connection
        for connection in crowd
        if connection is not new and connection.idle_limit() < inf
    ]
    unproven = [connection for connection in waiting if not connection.proven]
    unproven.sort(key=lambda each: (-counts[addresses[each]], each.born))
    idle = sorted(waiting, key=lambda each: each.since)
    # Several at once: a flood of connections then does not sort all of them for each new one.
    return unproven[: 1 + limit // 50] or idle[:1] or [new]


def names_of(certificate: dict[str, Any]) -> set[str]:
    """Return the common and DNS names of a certificate, in the form of `SSLSocket.getpeercert`."""
    subject = {
        value
        for relative in certificate.get("subject", ())
        for key, value in relative
        if key == "commonName"
    }
    alternatives = certificate.get("subjectAltName", ())
    return subject | {value for kind, value in alternatives if kind == "DNS"}
