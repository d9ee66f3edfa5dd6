"""Tests of webhook.manifest."""
