"""Failures of work on one object: of the API server, or of our own."""

import logging
from typing import Final

from webhook.diagnostics.internal_errors import UNEXPECTED
from webhook.kubeclient.errors import ApiError

_log: Final = logging.getLogger("webhook.controller")


def reason_of(error: Exception) -> str:
    """Return the reason that a failure is counted by."""
    return error.reason if isinstance(error, ApiError) else UNEXPECTED


def kind_of(error: Exception) -> str:
    """Return what distinguishes a failure from the previous one: its reason, or the type of a
    bug.
    """
    return error.reason if isinstance(error, ApiError) else type(error).__name__


def pause_of(error: Exception) -> float:
    """Return for how many seconds the API server asked to be left alone; 0 where it did not."""
    return (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0


def log_failure(error: Exception, text: str, *words: object) -> None:
    """Log a failure, which `text` names by the last two places: a bug as an error with its
    traceback, what the API server answered as a warning.
    """
    bug = None if isinstance(error, ApiError) else error
    said = str(error) if bug is None else f"{type(error).__name__}: {error}"
    level = logging.WARNING if bug is None else logging.ERROR
    _log.log(level, text, *words, said, reason_of(error), exc_info=bug)
