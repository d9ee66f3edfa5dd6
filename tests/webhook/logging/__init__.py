"""Tests of webhook.logging."""
