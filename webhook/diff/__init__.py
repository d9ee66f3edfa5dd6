"""Comparison of an object in a file with the one in the cluster."""
