"""Edits of a Ray pod, one module per concern, and the fold to a JSON Patch."""
