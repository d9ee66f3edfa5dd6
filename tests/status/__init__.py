"""Tests of what stands and what is missing."""
