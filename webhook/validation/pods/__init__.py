"""Checks of pod templates that the API server makes of the pods that KubeRay creates."""
