"""Tests of webhook.admission."""
