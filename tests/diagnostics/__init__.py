"""Tests of webhook.diagnostics."""
