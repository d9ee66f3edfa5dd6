"""Contents of packages and images: pins with hashes, the bill of materials, the release."""
