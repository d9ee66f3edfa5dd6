"""Requests of reconcilers to the API server: lists and failures."""

import logging
from datetime import UTC, datetime
from typing import Final, TypeVar

from webhook.api.failures import UNEXPECTED
from webhook.kubeclient.client import Api, Query
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.wire import Codec, Resource, Watched, read_list

T = TypeVar("T", bound=Watched)

OVERTAKEN: Final = frozenset({"conflict", "missing"})
"""Failures that mean that an object has changed: reconcile again."""
REFUSED: Final = frozenset({"forbidden", "invalid", "status"})
"""Failures of one object, unrelated to other objects."""
OWN: Final = OVERTAKEN | REFUSED | {UNEXPECTED}
"""Failures of one RayCluster, unrelated to others; all other ones are those of the API server."""
_log: Final = logging.getLogger("webhook.controller")
LIST_SECONDS: Final = 30.0
"""Deadline of a whole list, or of a page of one that is handled page by page."""


async def list_all(api: Api, path: str, selection: Query, codec: Codec[T]) -> list[T]:
    """Return all objects of a list. Raises ApiError."""
    return (
        await read_list(
            api, Resource("", "", path=path, codec=codec, query=selection), LIST_SECONDS
        )
    )[0]


def timestamp(seconds: float) -> str:
    """Return an instant, in seconds since the epoch, as a MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def reason_of(error: Exception) -> str:
    """Return the reason under which a failure is counted."""
    return error.reason if isinstance(error, ApiError) else UNEXPECTED


def kind_of(error: Exception) -> str:
    """Return the key that distinguishes two failures: the reason, or the type of a bug."""
    return error.reason if isinstance(error, ApiError) else type(error).__name__


def log_failure(error: Exception, text: str, *words: object) -> None:
    """Log a failure. `text` has placeholders for the failure in the last two places: a bug is an
    error with its traceback, an answer of the API server a warning.
    """
    bug = None if isinstance(error, ApiError) else error
    error_message = str(error) if bug is None else f"{type(error).__name__}: {error}"
    level = logging.WARNING if bug is None else logging.ERROR
    _log.log(level, text, *words, error_message, reason_of(error), exc_info=bug)
