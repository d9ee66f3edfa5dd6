"""Real Ray clusters, and JAX in them, on hosts configured only by the variables of their pods."""
