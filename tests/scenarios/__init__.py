"""Complete scenarios: files in, files out, through the command and over HTTPS."""
