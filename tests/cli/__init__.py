"""Tests of webhook.cli."""
