"""The drain of a worker that is being deleted: how long, as people write it."""

from math import ceil
from typing import Final

from webhook.api.quantity import read_number

SECONDS_MAX: Final = 86_400
"""A day: who needs longer needs checkpoints."""

MARGIN: Final = 30
"""Seconds of the grace period beyond the drain, for processes to end and for hooks: what Kubernetes
gives a pod that says nothing.
"""

_OWN_MAX: Final = 10**9
"""More than any pod lives, and a grace period that the API server takes."""

DEFAULT_GRACE: Final = 30
"""`terminationGracePeriodSeconds` of a pod that says nothing; the API server fills it in before
admission.
"""


def read_seconds(text: str) -> int | None:
    """Return the seconds that a text says, or None when it says none: decimal, no sign, no zeros in
    front, up to a day.
    """
    return read_number(text, SECONDS_MAX)


def own_seconds(text: str) -> int | None:
    """Return for how many seconds a Ray drains by a variable of the user's, rounded up, or None for
    a text in which Ray reads none.

    https://github.com/ray-project/ray/blob/master/python/ray/_common/utils.py (`env_float`)
    """
    try:
        seconds = float(text)
    except ValueError:
        return None
    # Also where it is no number
    return ceil(min(seconds, _OWN_MAX)) if seconds > 0 else 0
