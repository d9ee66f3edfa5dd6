"""Tests, and what plays the systems around the webhook."""
