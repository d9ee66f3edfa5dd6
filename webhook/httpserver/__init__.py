"""The HTTP server; no other package uses uvicorn."""
