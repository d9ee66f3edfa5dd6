"""Whose fault it is when a review has no verdict. A denial is a verdict; see
`webhook.kube.review.Denied`.
"""


class BadReview(Exception):  # noqa: N818 - named for what it is
    """The caller sent something that is not an AdmissionReview: HTTP 400. The message says what was
    expected.
    """


class NotNow(Exception):  # noqa: N818 - named for what it is
    """A review cannot be decided now: HTTP 503, and `failurePolicy` decides.

    There is no Retry-After, as the cause lasts: the API server would repeat the call until its
    timeout, and report that in place of the message. `subject` names the object in the message.
    """

    subject = ""


class ClaimsUnavailable(NotNow):
    """A seat or an index cannot be claimed now. The message says why, and what to do."""


class ClusterUnreadable(NotNow):
    """The API server could not be asked in time."""
