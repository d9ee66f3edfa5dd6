"""The Kubernetes API: connection, list-watch, the feeds of worker pods and RayClusters, live reads."""
