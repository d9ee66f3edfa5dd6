"""Comparison of the rules with KubeRay's own code: `make parity`."""
