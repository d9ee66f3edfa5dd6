"""The page: what stands in a cluster, what is missing, and what to do, in a browser; read-only."""
