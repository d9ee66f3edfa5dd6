"""Manifests and chart, rendered by the real programs and compared with the code."""
