"""Programs that run by hand or at night: measurements, and comparisons with other software."""
