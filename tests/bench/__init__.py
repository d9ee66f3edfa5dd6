"""Benchmarks: figures and ratios against a reference that runs beside them. Nothing here passes or
fails.
"""
