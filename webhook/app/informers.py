"""The configured connection to the API server, and the tasks and metrics of informers."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from webhook.app.runtime import Runnable
from webhook.cache.informer import ListWatch
from webhook.kubeclient.access import NAMESPACE_FILE, Load
from webhook.kubeclient.client import Api
from webhook.kubeclient.errors import ConfigurationError
from webhook.kubeclient.locations import load_of
from webhook.metrics import table
from webhook.metrics.collector import Metrics

Watches = Callable[[], Iterable[ListWatch[Any]]]


@dataclass(frozen=True)
class Connected:
    """Parts of a process, by name, that run while the connection to the API server is open."""

    api: Api
    parts: Mapping[str, Runnable]

    async def run(self) -> None:
        """Run until cancelled. Raises ConfigurationError if no connection is configured."""
        async with self.api, asyncio.TaskGroup() as group:
            for name, part in self.parts.items():
                group.create_task(part.run(), name=name)


def watch_metrics(
    metrics: Metrics, watches: Watches, clock: Callable[[], float] = monotonic
) -> None:
    """Expose the counters of each list-watch, and whether it is synced."""

    def by_watch(
        value: Callable[[ListWatch[Any]], float],
    ) -> Callable[[], dict[tuple[str, str], float]]:
        return lambda: {_labels(watch): value(watch) for watch in watches()}

    metrics.expose(table.WATCH_SYNCED, by_watch(lambda watch: watch.synced))
    metrics.expose(
        table.WATCH_AGE,
        lambda: {
            _labels(watch): clock() - watch.contacted_at for watch in watches() if watch.synced
        },
    )
    metrics.expose(table.WATCH_LISTS, by_watch(lambda watch: watch.counters.lists))
    metrics.expose(table.WATCH_OPENED, by_watch(lambda watch: watch.counters.watches))
    metrics.expose(table.WATCH_EVENTS, by_watch(lambda watch: watch.counters.events))
    metrics.expose(table.MALFORMED_OBJECTS, by_watch(lambda watch: watch.counters.unreadable))
    metrics.expose(
        table.WATCH_ERRORS,
        lambda: {
            (*_labels(watch), reason): count
            for watch in watches()
            for reason, count in watch.counters.errors.items()
        },
    )


def _labels(watch: ListWatch[Any]) -> tuple[str, str]:
    return watch.resource.plural, watch.resource.namespace


def connection(config: Path | None) -> Load:
    """Return the loader of the connection: a kubeconfig, or the service account of the pod."""
    return load_of(str(config or ""))


def own_namespace(named: str, file: Path = NAMESPACE_FILE) -> str:
    """Return `installation.namespace`, or the pod's namespace. Raises ConfigurationError."""
    try:
        return named or file.read_text().strip()
    except OSError as error:
        msg = (
            f"no namespace: set installation.namespace, as {file} cannot be read: {error.strerror}"
        )
        raise ConfigurationError(msg) from error
