"""What operators see: metrics and log lines. Never the object: variables are secrets."""
