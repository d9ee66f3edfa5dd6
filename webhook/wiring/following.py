"""The metrics of what follows a cluster, which every process that does so has."""

from collections.abc import Callable, Iterable

from webhook.follow.state import ClusterState
from webhook.telemetry.process_metrics import ProcessMetrics
from webhook.telemetry.watches import WatchCollector, Watching


def follow_metrics(
    metrics: ProcessMetrics,
    cluster: ClusterState,
    others: Callable[[], Iterable[Watching]] = lambda: (),
) -> None:
    """Expose the watches of a cluster and others, live reads, and labels that are no seat."""
    metrics.registry.register(WatchCollector(lambda: [*cluster.watches, *others()]))
    metrics.counter(
        "ray_webhook_live_reads",
        "Live reads of RayClusters and groups that were begun.",
        lambda: cluster.reader.reads,
    )
    metrics.counter(
        "ray_webhook_live_read_failures",
        "Live reads that failed; who asked got 503.",
        lambda: cluster.reader.failures,
    )
    metrics.counter(
        "ray_webhook_malformed_seats",
        "Worker pods as the API server told of them whose labels are no seat.",
        lambda: cluster.malformed,
    )
