"""The cluster: the Kubernetes API (connection, feeds, live reads), and files that stand in for it."""
