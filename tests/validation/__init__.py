"""Tests of webhook.validation."""
