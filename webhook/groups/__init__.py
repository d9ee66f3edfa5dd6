"""Worker groups: configuration, annotations, identities, and the indices that are taken."""
