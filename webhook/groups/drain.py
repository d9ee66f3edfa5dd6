"""The drain of a worker that is being deleted: how long, as people write it."""

from typing import Final

SECONDS_MAX: Final = 86_400
"""A day: who needs longer needs checkpoints."""

MARGIN: Final = 30
"""Seconds of the grace period beyond the drain, for processes to end and for hooks: what Kubernetes
gives a pod that says nothing.
"""

_DIGITS: Final = len(str(SECONDS_MAX))


def read_seconds(text: str) -> int | None:
    """Return the seconds that a text says, or None when it says none: decimal, no sign, no zeros in
    front, up to a day.
    """
    if (
        not (text.isascii() and text.isdigit())
        or len(text) > _DIGITS
        or (text[0] == "0" and text != "0")
    ):
        return None
    seconds = int(text)
    return seconds if seconds <= SECONDS_MAX else None
