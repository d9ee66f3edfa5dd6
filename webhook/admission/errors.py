"""Whose fault it is when a review has no verdict. A denial is a verdict; see `webhook.kube.review.Denied`."""

from webhook.groups.seat import GroupKey


class BadReview(Exception):  # noqa: N818 - named for what it is
    """The caller sent something that is not an AdmissionReview: HTTP 400. The message says what was expected."""


class ClusterUnknown(Exception):  # noqa: N818 - named for what it is
    """The RayCluster of a pod is not known, or not yet: it can be read from the API server, once."""

    def __init__(self, namespace: str, name: str, uid: str) -> None:
        super().__init__(f"RayCluster {namespace}/{name} with uid {uid or '?'} is not known")
        self.namespace = namespace
        self.name = name
        self.uid = uid


class Unsure(Exception):  # noqa: N818 - named for what it is
    """A replica beyond the group's desired count would be opened, on knowledge that may be old: it can be read, once."""

    def __init__(self, cluster: str, key: GroupKey) -> None:
        super().__init__(f"worker group {key.group} of RayCluster {key.namespace}/{cluster} looks full")
        self.cluster = cluster
        self.key = key


class ClusterUnreadable(Exception):  # noqa: N818 - named for what it is
    """The API server could not be asked in time: HTTP 503 with Retry-After, so that it asks again, and `failurePolicy` decides."""
