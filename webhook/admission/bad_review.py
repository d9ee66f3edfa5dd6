"""Errors of reviews without a verdict. A denial is a verdict; see `webhook.api.review.Denied`."""

from webhook.api.review import NotNow


class BadReview(Exception):  # noqa: N818 - named for what it is
    """The request body is not an AdmissionReview: HTTP 400. The message has the expected format."""


class ClusterUnreadable(NotNow):
    """The API server did not answer in time."""
