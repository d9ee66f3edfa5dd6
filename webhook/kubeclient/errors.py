"""What can go wrong between us and the API server. Each failure has a short `reason`, which metrics
are labelled with. Messages quote servers, proxies and plugins: they are one line without control
characters.
"""

from webhook.api.printable import one_line


class ConfigurationError(Exception):
    """There is no usable in-cluster configuration or kubeconfig. The message says what to set."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class ApiError(Exception):
    """A request to the API server failed; it may be tried again. `retry_after` is in seconds, when
    the server named it.
    """

    def __init__(self, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(one_line(message))
        self.reason = reason
        self.retry_after = retry_after


class Expired(ApiError):  # noqa: N818 - named for what happened
    """410, as a status or in a stream: the resourceVersion or continue token is too old, so only a
    new list helps.
    """


class Garbled(ApiError):  # noqa: N818 - named for what happened
    """The answer is not what the API promises: not JSON, or cut off."""
