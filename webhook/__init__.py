"""ray-webhook: an admission webhook that completes Ray pods and validates Ray objects."""

__version__ = "0.1.0"
