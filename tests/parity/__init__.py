"""Holds the rules against KubeRay's own code: `make parity`."""
