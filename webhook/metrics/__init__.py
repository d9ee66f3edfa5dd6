"""Prometheus metrics: one table, and one collector."""
