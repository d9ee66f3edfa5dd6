"""Caches of cluster objects: list and watch, stores, and live reads."""
