"""Admission reviews: bytes in, a decision, bytes out."""
