"""Pod templates of Ray objects: what the API server refuses of the pods that KubeRay makes."""
