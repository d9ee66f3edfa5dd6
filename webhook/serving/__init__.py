"""Serving: the endpoints that answer reviews, and the gate that says whether they can now."""
