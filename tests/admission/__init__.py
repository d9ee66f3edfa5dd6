"""Reviews of pods."""
