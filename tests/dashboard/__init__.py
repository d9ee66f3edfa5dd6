"""Tests of webhook.dashboard."""
