"""Limits on who may connect to a port, and on what they may hold of it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of one port, in bytes, seconds and numbers. See docs/hardening.md."""

    connections: int = 1000  # half of them from one address
    head: int = 64 * 1024  # and what one read returns beyond it
    headers: int = 100  # many short ones take more memory than a long one
    queue: int = 32  # requests behind one without an answer; kube-apiserver sends none
    unsent: int = 64 * 1024 * 1024  # of answers, all connections together
    buffer: int = 64 * 1024  # of answers, one connection
    receive_buffer: int = 16 * 1024  # in the kernel, and in TLS while nothing is read
    wide: int = 64  # good clients with more than that
    wide_buffer: int = 64 * 1024
    first_seconds: float = 15  # for the handshake, and then to the first byte of a request
    request_seconds: float = 30  # to the last byte of a request, and for an answer to be taken
    linger_seconds: float = 1  # for a refusal to be read before the connection ends
    client_names: frozenset[str] = frozenset()  # of client certificates: any, when there is none
    unread_seconds: float = 0.0005  # for each connection: between reads of what was refused
    idle_seconds: float = 120  # kube-apiserver closes after 90, and does not repeat a POST
