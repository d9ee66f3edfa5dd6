"""Tests of webhook.httpserver."""
