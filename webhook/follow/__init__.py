"""The Kubernetes API: its client, list-watches, what they deliver, and live reads."""
