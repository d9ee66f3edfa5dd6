"""HTTP: the review endpoints, the probes, and uvicorn that serves both."""
