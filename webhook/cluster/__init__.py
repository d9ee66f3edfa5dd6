"""The cluster: the Kubernetes API, and files that stand in for it."""
