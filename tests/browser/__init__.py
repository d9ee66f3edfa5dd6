"""Tests of the dashboard in a real browser, run by `make browser`."""
