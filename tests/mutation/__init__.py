"""Tests of webhook.mutation."""
