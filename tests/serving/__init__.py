"""Tests of webhook.serving."""
