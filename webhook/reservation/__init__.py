"""Reservations: identities of worker pods and indices of shards, each assigned to only 1 object."""
