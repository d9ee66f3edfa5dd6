"""Tests of webhook.objects."""
