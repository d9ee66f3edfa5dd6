"""Whose fault it is when a review has no verdict. A denial is a verdict; see `webhook.kube.review.Denied`."""


class BadReview(Exception):  # noqa: N818 - named for what it is
    """The caller sent something that is not an AdmissionReview: HTTP 400. The message says what was expected."""


class ClusterUnreadable(Exception):  # noqa: N818 - named for what it is
    """The API server could not be asked in time: HTTP 503 with Retry-After, so that it asks again, and `failurePolicy` decides."""
