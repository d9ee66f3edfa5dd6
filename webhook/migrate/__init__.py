"""Migration from another webhook."""
