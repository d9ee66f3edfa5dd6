"""ray-webhook: an admission webhook that seats, completes and checks Ray pods on Kubernetes."""

__version__ = "0.1.0"
