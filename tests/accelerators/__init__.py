"""Tests of webhook.accelerators."""
