"""Benchmarks: figures, and ratios to a reference that runs at the same time. They never pass or
fail.
"""
