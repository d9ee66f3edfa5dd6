"""Manifests and chart, rendered by the real programs and held against the code."""
