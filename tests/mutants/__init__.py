"""Mutation testing: small changes of the program, each of which a test has to find."""
