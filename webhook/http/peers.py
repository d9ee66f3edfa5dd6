"""Who may connect, by the names in the client's certificate."""

import asyncio
from collections.abc import Sequence
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


def named_peers(names: Sequence[str]) -> type[HttpToolsProtocol]:
    """Return the protocol that ends a connection whose client bears none of `names`, before a byte
    of it is read.

    The certificate itself was verified in the handshake.
    """
    allowed = frozenset(names)

    class NamedPeers(HttpToolsProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
            super().connection_made(transport)
            if not allowed & names_of(transport.get_extra_info("peercert") or {}):
                transport.abort()

    return NamedPeers


def names_of(certificate: dict[str, Any]) -> set[str]:
    """Return the common and DNS names of a certificate, in the form of `SSLSocket.getpeercert`."""
    subject = {
        value
        for relative in certificate.get("subject", ())
        for key, value in relative
        if key == "commonName"
    }
    return subject | {
        value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"
    }
