"""Worker groups: arithmetic, seats, expansion."""
