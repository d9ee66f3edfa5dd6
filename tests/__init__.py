"""Tests, and fakes of the systems around the webhook."""
