"""Composition roots: one for each process, from settings to named runnables. No logic."""
