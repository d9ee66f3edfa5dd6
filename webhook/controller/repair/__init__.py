"""Repair of replicas that lost a host."""
