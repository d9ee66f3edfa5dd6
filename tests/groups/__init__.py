"""Tests of webhook.groups."""
