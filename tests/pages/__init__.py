"""Generated pages, and tests of the documents."""
