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
    """Expose the watches of a cluster and others, live reads, and invalid seat labels."""
    metrics.registry.register(WatchCollector(lambda: [*cluster.watches, *others()]))
    metrics.counter(
        "ray_webhook_live_reads",
        "Live reads of RayClusters and groups that were begun.",
        lambda: cluster.reader.reads,
    )
    metrics.counter(
        "ray_webhook_live_read_failures",
        "Live reads that failed; the review was answered with 503.",
        lambda: cluster.reader.failures,
    )
    metrics.counter(
        "ray_webhook_malformed_seats",
        "Worker pods whose seat labels are invalid.",
        lambda: cluster.malformed,
    )
