"""The labels of a seat, as a story takes them away, and the events that tell of what is wrong."""

from tests.e2e.api import Api, Objects, Resource

EVENTS = Resource("events.k8s.io/v1", "events")
SEAT = (
    "ray.io/worker-group-replica-index",
    "ray.io/worker-group-replica-name",
    "ray.io/replica-host-index",
    "replicaIndex",
)


def told(api: Api, namespace: str, reason: str) -> Objects:
    """Our events of a reason."""
    return [each for each in api.list(EVENTS, namespace) if each["reason"] == reason]
