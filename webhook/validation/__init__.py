"""Rules: from a Ray object as it was sent, and the one it replaces, to findings."""
