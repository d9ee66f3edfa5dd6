"""Whose fault it is when a review has no verdict. A denial is a verdict; see `webhook.kube.review.Denied`."""


class BadReview(Exception):  # noqa: N818 - named for what it is
    """The caller sent something that is not an AdmissionReview: HTTP 400. The message says what was expected."""


class ClusterUnknown(Exception):  # noqa: N818 - named for what it is
    """The RayCluster of a pod is not known, or not yet: it can be read from the API server, once."""

    def __init__(self, namespace: str, name: str, uid: str) -> None:
        super().__init__(f"RayCluster {namespace}/{name} with uid {uid or '?'} is not known")
        self.namespace = namespace
        self.name = name
        self.uid = uid
