"""Tests of webhook.config."""
