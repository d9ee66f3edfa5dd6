"""Bounds on what a client may hold of a listener: bytes, time and connections."""

import resource
from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024

_SPARE: Final = 64
"""Descriptors that are left for files, for the API server and for the other listener."""


@dataclass(frozen=True)
class Bounds:
    """What all connections of one listener may hold together, and each by itself. Bytes and
    seconds.
    """

    connections: int = 1000
    """How many there may be. Above it, those that wait longest for their client are closed."""

    in_flight: int = 64 * MIB
    """Bytes of bodies that are read and not answered, of all connections; and bytes of answers that
    wait to be taken.
    """

    head: int = 64 * 1024
    """Bytes of a request's line, headers and trailers. kube-apiserver sends less than one KiB."""

    headers: int = 100
    """How many headers and trailers a request may have: many short ones take more memory than one
    that is long.
    """

    queue: int = 32
    """How many requests of a connection may wait for the answer to an earlier one. kube-apiserver
    sends none so early.
    """

    queued_request: int = 4096
    """Bytes that such a request counts for, above those of its body: what it takes
    to remember it.
    """

    write_buffer: int = 64 * 1024
    """Bytes of answers of one connection that may wait to be taken before no more of its requests
    are answered.
    """

    receive_buffer: int = 16 * 1024
    """Bytes that the kernel keeps of what a client sends: also about the most that is read before
    others get their turn, and that TLS keeps of a connection, more than once.
    """

    first_byte: int = 15
    """Seconds from the connection to the first byte of a request, the TLS handshake included."""

    head_seconds: int = 15
    """Seconds from the first byte of a request to the end of its head."""

    request_seconds: int = 30
    """Seconds from the first byte of a request to its last one, and for an answer to be taken."""

    linger_seconds: int = 1
    """Seconds for which a client that sent too much is left with its answer. Meanwhile it holds a
    connection, which takes more memory than many a body.
    """

    idle_seconds: int = 120
    """Seconds between requests, above the 90 for which kube-apiserver keeps an idle connection: it
    does not repeat a POST that meets a closing one.
    """


PROBES_IN_FLIGHT: Final = 8 * MIB
"""Of the plain port: none of its requests has a body."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open descriptors to the hard one, and return how many connections
    that leaves room for.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return max(hard - _SPARE, 1)
