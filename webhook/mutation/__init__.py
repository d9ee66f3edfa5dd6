"""Edits of a Ray pod, in a module per feature, and their conversion to a JSON Patch."""
