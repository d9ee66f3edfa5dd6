"""Settings: model, sources and help."""
