"""What goes into packages and images: pins with hashes, the bill of materials, the release."""
