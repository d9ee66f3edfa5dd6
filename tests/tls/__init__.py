"""Tests of webhook.tls."""
