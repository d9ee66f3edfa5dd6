"""Settings: model, sources and help texts."""
