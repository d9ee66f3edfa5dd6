"""Certificates: where they come from, and the context that the listener takes them from."""
