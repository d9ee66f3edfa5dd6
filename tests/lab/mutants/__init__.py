"""Mutation testing: small changes of the program, each of which a test must detect."""
