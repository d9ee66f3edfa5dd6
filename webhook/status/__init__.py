"""What stands in a cluster, what is missing, and what to do about it."""
