"""Reconcilers, which write to the cluster outside of admission."""
