"""Real Rays, and JAX in them, on hosts that have nothing but what the webhook gave their pods."""
