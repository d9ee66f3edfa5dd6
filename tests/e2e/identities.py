"""Removal of identity labels, and the events that report problems."""

from tests.e2e.api import Api, Objects, Resource

EVENTS = Resource("events.k8s.io/v1", "events")
IDENTITY = (
    "ray.io/worker-group-replica-index",
    "ray.io/worker-group-replica-name",
    "ray.io/replica-host-index",
    "replicaIndex",
)


def events_of(api: Api, namespace: str, reason: str) -> Objects:
    """Our events of a reason."""
    return [each for each in api.list(EVENTS, namespace) if each["reason"] == reason]
