"""Tests of webhook.kube."""
