"""The HTTP server: FastAPI applications, connections and listeners."""
