"""Operation of the service: settings, probes, metrics, restarts."""
