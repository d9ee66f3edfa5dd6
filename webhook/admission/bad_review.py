"""Whose fault it is when a review has no verdict. A denial is a verdict; see
`webhook.api.review.Denied`.
"""

from webhook.api.review import NotNow


class BadReview(Exception):  # noqa: N818 - named for what it is
    """The caller sent something that is not an AdmissionReview: HTTP 400. The message says what was
    expected.
    """


class ClusterUnreadable(NotNow):
    """The API server could not be asked in time."""
