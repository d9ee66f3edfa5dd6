"""Rules: from a Ray object, and the one that it replaces, to findings."""
