"""Failures of work on one object: errors of the API server, or our own bugs."""

import logging
from typing import Final

from webhook.diagnostics.internal_errors import UNEXPECTED
from webhook.kubeclient.errors import ApiError

_log: Final = logging.getLogger("webhook.controller")


def reason_of(error: Exception) -> str:
    """Return the reason under which a failure is counted."""
    return error.reason if isinstance(error, ApiError) else UNEXPECTED


def kind_of(error: Exception) -> str:
    """Return the key that distinguishes two failures: the reason, or the type of a bug."""
    return error.reason if isinstance(error, ApiError) else type(error).__name__


def pause_of(error: Exception) -> float:
    """Return the seconds of the API server's Retry-After, 0 without one."""
    return (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0


def log_failure(error: Exception, text: str, *words: object) -> None:
    """Log a failure. `text` has placeholders for the failure in the last two places: a bug is an
    error with its traceback, an answer of the API server a warning.
    """
    bug = None if isinstance(error, ApiError) else error
    said = str(error) if bug is None else f"{type(error).__name__}: {error}"
    level = logging.WARNING if bug is None else logging.ERROR
    _log.log(level, text, *words, said, reason_of(error), exc_info=bug)
