"""Tests of what is running and what is missing."""
