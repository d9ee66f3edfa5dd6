"""The page: what is running in a cluster, what is missing, what to do, in a browser; read-only."""
