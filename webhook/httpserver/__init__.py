"""The HTTP server: the only package that uses uvicorn."""
