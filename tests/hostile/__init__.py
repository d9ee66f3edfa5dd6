"""Attacks on the two listeners, each with a good client and the probes beside it."""
