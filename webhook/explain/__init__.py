"""Explanation of pods and variables."""
