"""Quantities, shapes of names, paths."""
