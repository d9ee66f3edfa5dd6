"""Worker groups: their arithmetic, who holds which seat, and which seat comes next."""
