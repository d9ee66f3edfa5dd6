"""Errors whose message is for the user of a command."""


class InputError(Exception):
    """A command line, file, settings or kubeconfig that cannot be used, or an unreachable cluster.
    The message says what to change.
    """
