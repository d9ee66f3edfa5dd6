"""The read-only dashboard of RayClusters and their problems, with its routes."""
