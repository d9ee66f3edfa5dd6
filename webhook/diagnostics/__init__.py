"""Diagnostics of RayClusters, replicas and pods: problems, their causes and remedies."""
