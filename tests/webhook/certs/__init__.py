"""Tests of webhook.certs."""
