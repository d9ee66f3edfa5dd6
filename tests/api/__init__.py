"""Tests of webhook.api."""
