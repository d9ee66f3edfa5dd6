"""A real control plane on loopback, and the stories that it proves."""
