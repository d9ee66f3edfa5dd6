"""End-to-end tests on a real control plane on loopback."""
