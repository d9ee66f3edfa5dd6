"""Kubernetes, KubeRay and Ray as this project sees them: names, views of objects,
shapes of values.
"""
