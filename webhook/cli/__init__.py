"""Commands: parse, call, print. Heavy imports are inside the commands."""
