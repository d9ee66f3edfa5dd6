"""Comparison of the rules with the parsers of Ray's autoscaler: `make ray-parsers`."""
