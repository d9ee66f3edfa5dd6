"""The details of a pod: its node and age, its events, and commands that show more."""

from collections.abc import Iterable, Iterator
from typing import Final

from webhook.dashboard.view import Instant, instant
from webhook.diagnostics import report
from webhook.diagnostics.live_objects import LiveEvent, LivePod
from webhook.diagnostics.messages import describe

_EVENTS: Final = 10
"""The number of events shown: the latest of a pod."""
_DASHBOARD_PORT: Final = 8265
"""The port of the Ray dashboard.

https://docs.ray.io/en/latest/ray-observability/getting-started.html
"""


def facts_of(pod: LivePod, cluster: report.Cluster | None) -> Iterator[tuple[str, str]]:
    """Yield the facts of a pod, by name."""
    ray, status = pod.spec.ray, pod.ray_status
    every = {
        "Node": pod.spec.node_name or "",
        "Image": (ray and ray.image) or "",
        "Restarts": f"{status.restart_count}" if status else "",
        "PodGroup": pod.pod_group,
        "Ray version": cluster.ray_version if cluster else "",
        "Queue": cluster.queue if cluster else "",
        "Owner": cluster.owner if cluster else "",
    }
    yield from ((name, value) for name, value in every.items() if value)


def commands_of(pod: LivePod, cluster: report.Cluster | None) -> Iterator[tuple[str, str]]:
    """Yield read-only commands, each with a description of its output."""
    namespace = pod.metadata.namespace or ""
    ray, status = pod.spec.ray, pod.ray_status
    yield "Conditions and events", describe("pod", namespace, pod.name)
    logs = f"kubectl logs -n {namespace} {pod.name}" + (f" -c {ray.name}" if ray else "")
    yield "Logs", logs
    if status and status.restart_count:
        yield "Logs before the restart", f"{logs} --previous"
    if cluster and cluster.head.pods:
        head = f"pod/{cluster.head.pods[0]}"
        forward = f"kubectl port-forward -n {namespace} {head} {_DASHBOARD_PORT}"
        yield f"Ray dashboard, at http://localhost:{_DASHBOARD_PORT}", forward


def events_of(pod: LivePod, events: Iterable[LiveEvent]) -> list[tuple[str, str, Instant | None]]:
    """Return reason, message and time of the latest events of a pod."""
    about = [each for each in events if each.involved_object.uid == pod.metadata.uid]
    about.sort(key=lambda event: event.last or 0.0)
    return [(each.reason, each.message, instant(each.last)) for each in about[: -_EVENTS - 1 : -1]]
