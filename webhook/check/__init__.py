"""Checks of an installation: judgements on the API server's answers, each with a remedy."""
