"""Comparison of the rules with the parsers of Ray's autoscaler for RayClusters: `make
ray-parsers`.
"""
