"""Tests of reservations."""
