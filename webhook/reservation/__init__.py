"""Reservations: identities of worker pods and indices of shards, each assigned once."""
