"""The doorway to FastAPI and uvicorn: applications, connections and listeners."""
