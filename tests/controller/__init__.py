"""Tests of webhook.controller."""
