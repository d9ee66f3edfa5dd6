"""Tests of webhook.check."""
