"""Failures: errors whose message is for the user of a command, and the label of internal errors."""

from typing import Final

UNEXPECTED: Final = "unexpected"
"""The label by which metrics count internal errors."""


class InputError(Exception):
    """A command line, file, settings or kubeconfig that cannot be used, or an unreachable cluster.
    The message says what to change.
    """
