"""Tests of webhook.kubeclient and webhook.cache."""
