"""Certificates over real TLS on loopback, and the decisions about self-signed ones."""
