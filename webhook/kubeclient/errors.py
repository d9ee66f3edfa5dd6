"""Errors of requests to the API server. Each has a short `reason`, which is a label of metrics.
Messages quote servers, proxies and plugins, so they are sanitized to a line without control
characters.
"""

from msgspec import Struct

from webhook.api.failures import InputError
from webhook.api.formats import one_line


class Status(Struct):
    """A `v1` Status."""

    code: int = 0
    reason: str | None = None
    message: str | None = None


class ConfigurationError(InputError):
    """No usable in-cluster configuration or kubeconfig. The message names the missing settings."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class ApiError(Exception):
    """A failed request to the API server; `retry_after` is in seconds, if the server sent it."""

    def __init__(self, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(one_line(message))
        self.reason = reason
        self.retry_after = retry_after
