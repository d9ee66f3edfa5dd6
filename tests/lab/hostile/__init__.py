"""Attacks on the two listeners, with a well-behaved client and probes at the same time."""
