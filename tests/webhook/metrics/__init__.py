"""Tests of webhook.metrics and webhook.logging."""
