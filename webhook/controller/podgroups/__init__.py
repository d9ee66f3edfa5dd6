"""Reconciliation of Workloads and PodGroups."""
