"""Manifests: YAML and JSON with positions, and the pods that KubeRay would create."""
