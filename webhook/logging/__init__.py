"""Structured log lines. Objects are never logged: environment values are secrets."""
