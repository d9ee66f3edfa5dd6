"""Fakes, processes and objects that tests of several packages use."""
