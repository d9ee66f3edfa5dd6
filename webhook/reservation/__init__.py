"""Reservations: the identities of worker pods and the indices of shards, each given once."""
