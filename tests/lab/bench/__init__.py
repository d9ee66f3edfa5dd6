"""Benchmarks: figures, and ratios to a reference of the same time. They never pass or fail."""
