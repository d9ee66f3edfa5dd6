"""Manifests: objects from YAML or JSON that stand in for a cluster, and the pods that KubeRay would
create for them.
"""
