"""The drain timeout of a worker that is being deleted, as users write it."""

from math import ceil
from typing import Final

from webhook.api.quantity import read_number

SECONDS_MAX: Final = 86_400
"""A day; jobs that need longer need checkpoints."""

MARGIN: Final = 30
"""Seconds of the grace period after the drain, for processes to end and for hooks: Kubernetes'
default grace period.
"""

_OWN_MAX: Final = 10**9
"""Longer than any pod runs, and a valid grace period."""

DEFAULT_GRACE: Final = 30
"""The default of `terminationGracePeriodSeconds`, which the API server sets before admission."""


def read_seconds(text: str) -> int | None:
    """Return the seconds in a text, or None if it is invalid: decimal, without sign or leading
    zeros, up to a day.
    """
    return read_number(text, SECONDS_MAX)


def own_seconds(text: str) -> int | None:
    """Return the seconds for which a Ray node drains by a variable set by the user, rounded up, or
    None for a text that Ray rejects.

    https://github.com/ray-project/ray/blob/master/python/ray/_common/utils.py (`env_float`)
    """
    try:
        seconds = float(text)
    except ValueError:
        return None
    # `max` returns 0 for NaN, because 0 is its first argument.
    return ceil(min(max(0, seconds), _OWN_MAX))
