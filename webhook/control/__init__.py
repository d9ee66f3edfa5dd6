"""Reconcilers: what writes to the cluster beside admission."""
