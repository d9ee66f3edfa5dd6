"""The read-only page that shows RayClusters and their problems, with its routes."""
