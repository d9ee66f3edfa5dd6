"""Pod templates: what the API server would refuse of the pods that KubeRay creates."""
