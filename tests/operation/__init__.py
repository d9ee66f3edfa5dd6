"""How the service is run: settings, probes, metrics, restarts."""
