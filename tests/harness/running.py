"""What the fixtures of this package return: a run of a command, and files for it."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Ended(NamedTuple):
    """The exit status and the output of a command."""

    status: int
    out: str
    err: str


Run = Callable[..., Ended]
"""Runs a command with arguments."""

At = Callable[..., Ended]
"""Runs a command on a scene behind a socket; `change` gets the server."""

Write = Callable[..., Path]
"""Writes a file of documents or a text, and returns its path: `name` is below the test's folder."""
