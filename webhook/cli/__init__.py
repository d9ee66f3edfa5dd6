"""The commands: parse, call, print. What a command does not need it does not import."""
