"""docs/metrics.md, from the metrics of the processes."""

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests import ROOT
from tests.pages.markdown import folded
from webhook.app import controller, serve
from webhook.config.configuration import Component, Installation, Listen, Settings, Tls
from webhook.httpserver.server import HttpServer
from webhook.metrics import table
from webhook.metrics.table import Metric

PAGE: Final = ROOT / "docs" / "metrics.md"

TABLE: Final = [row for row in vars(table).values() if isinstance(row, Metric)]

_HEAD = """# Metrics

<!-- Written by `make generate`; a test fails when this page is out of date. -->

Each process exposes its metrics, `process_*` and `python_gc_*` at `/metrics` of its admin port.
[Prometheus](platforms.md#prometheus) explains how to scrape them, and [Alerts](alerts.md) has a
runbook for each alert. A gauge of cluster state, such as the number of RayClusters, is the same in
each `serve` process: take the maximum. Of the controller, only the leader exports series of
replicas; there are no series for single pods. In parentheses: the kind, and the labels.
"""

_SETTINGS: Final = Settings(
    installation=Installation(namespace="ray-webhook", components=[*get_args(Component)]),
    listen=Listen(host="127.0.0.1", admin_port=0),
    tls=Tls(source="self-signed"),
    kubeconfig=Path("of-no-cluster"),
)
"""Everything is switched on."""


def processes() -> dict[str, HttpServer]:
    return {
        "serve": serve.build(_SETTINGS, io.BytesIO()).servers[-1],
        "controller": controller.build(_SETTINGS, io.BytesIO()).servers[-1],
    }


def exposed() -> dict[str, list[Metric]]:
    """Return the rows of the table that each process exposes, by name, from a scrape of it.

    Raises KeyError for a metric that is in no row.
    """
    rows = {(row.name, row.text): row for row in TABLE}
    return {
        process: sorted(
            (
                rows[family.name, family.documentation]
                for family in text_string_to_metric_families(asyncio.run(_scraped(server)))
                if family.name.startswith("ray_webhook_")
            ),
            key=scraped_name,
        )
        for process, server in processes().items()
    }


def scraped_name(row: Metric) -> str:
    return f"{row.name}_total" if row.kind == "counter" else row.name


def page() -> str:
    return folded(_HEAD + "".join(_sections()))


def _sections() -> Iterator[str]:
    processes_of: dict[Metric, list[str]] = {}
    for process, rows in exposed().items():
        for row in rows:
            processes_of.setdefault(row, []).append(process)
    sections: dict[str, list[Metric]] = {"all processes": []}
    for row, names in processes_of.items():
        title = "all processes" if len(names) == len(processes()) else " and ".join(names)
        sections.setdefault(title, []).append(row)
    for title, rows in sections.items():
        yield f"\n## {title[0].upper()}{title[1:]}\n\n"
        for row in sorted(rows, key=scraped_name):
            facts = ", ".join([row.kind, *(f"`{label}`" for label in row.labels)])
            yield f"- `{scraped_name(row)}` ({facts}): {row.text}\n"


async def _scraped(server: HttpServer) -> str:
    transport = httpx.ASGITransport(server.config.app)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return (await client.get("/metrics")).text
