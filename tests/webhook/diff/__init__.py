"""Tests of webhook.diff."""
