"""Tests of webhook.cache."""
