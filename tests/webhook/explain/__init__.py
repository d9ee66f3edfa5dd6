"""Tests of webhook.explain."""
