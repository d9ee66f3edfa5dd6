"""TLS certificates: sources, renewal, and the context of each handshake."""
