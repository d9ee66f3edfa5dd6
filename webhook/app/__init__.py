"""Composition roots, one per process: from settings to named tasks. They contain no logic."""
