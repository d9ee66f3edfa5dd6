"""Requests to the Kubernetes API server: client, credentials, errors and discovery."""
