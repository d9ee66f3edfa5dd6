"""Repair: which replicas have lost a host, and what is to be done about it."""
