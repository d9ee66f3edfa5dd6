"""The queries of the Grafana dashboard, on a Prometheus that scrapes all programs."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from tests import ROOT
from tests.e2e.api import PODS, RAY_CLUSTERS, ApiError, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.credentials import MASTERS
from tests.e2e.gangs import GROUPED, counts, grouped
from tests.e2e.kuberay import Operator
from tests.e2e.process import Peer, free_port, get
from tests.e2e.rays import HOSTS, IDENTITY, events_of, slices, wait_for_workers, workers
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook

pytestmark = pytest.mark.e2e

DASHBOARD = json.loads((ROOT / "manifests" / "monitoring" / "dashboard.json").read_text())
VARIABLES = {"$__rate_interval": "30s", "$namespace": ".*", "$raycluster": ".*"}
OUR_METRIC = re.compile(r"\b(?:ray_webhook|apiserver_admission)_\w+")


TARGETS = 3


class Prometheus(Peer):
    """A Prometheus that scrapes the two programs and the API server every few seconds, as long as
    each of them may take to answer: a scrape that is cut off empties panels.
    """

    def __init__(self, plane: ControlPlane, webhook: Webhook, folder: Path) -> None:
        self._port = free_port()
        account = json.loads(plane.kubeconfig("prometheus", [MASTERS]).read_text())
        (cluster,), (user,) = account["clusters"], account["users"]
        files = {
            "ca_file": cluster["cluster"]["certificate-authority"],
            "cert_file": user["user"]["client-certificate"],
            "key_file": user["user"]["client-key"],
        }
        targets = {
            "serve": webhook.admin_address,
            "controller": webhook.controller.admin_address,
            "apiserver": plane.server.removeprefix("https://"),
        }
        jobs: list[Json] = [
            {"job_name": name, "static_configs": [{"targets": [target]}]}
            for name, target in targets.items()
        ]
        jobs[-1] |= {"scheme": "https", "tls_config": files}
        config = {"global": {"scrape_interval": "3s"}, "scrape_configs": jobs}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        flags = [
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        super().__init__(plane.program("prometheus", flags), lambda: self.ready)

    @property
    def ready(self) -> bool:
        with suppress(OSError):  # not yet
            return len(self.query("count_over_time(up[1h]) > 4")) == TARGETS and all(
                sample["value"][1] == "1" for sample in self.query("up")
            )
        return False

    def query(self, text: str) -> list[Json]:
        result: list[Json] = self._get(f"/query?{urlencode({'query': text})}")["result"]
        return result

    def values(self, label: str, series: str) -> list[str]:
        found: list[str] = self._get(f"/label/{label}/values?{urlencode({'match[]': series})}")
        return found

    def metadata(self) -> set[str]:
        return set(self._get("/metadata"))

    def _get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        return json.loads(get(self._port, f"/api/v1{path}"))["data"]


def happen(plane: ControlPlane, namespace: str) -> None:
    """All that a dashboard is about: replicas that come and break, denials, events, PodGroups."""
    api = plane.api
    with Operator(plane, multi_host_indexing=False):
        api.create(RAY_CLUSTERS, grouped("gang", {"workers": (1, HOSTS)}, GROUPED), namespace)
        api.create(RAY_CLUSTERS, slices("llama", 1), namespace)
        wait_for_workers(api, namespace, HOSTS, "gang")
        wait_for_workers(api, namespace, HOSTS, "llama")
        until(lambda: counts(api, namespace).get("gang-worker-workers"), "a PodGroup")
    pod = workers(api, namespace, "llama")[0]["metadata"]["name"]
    api.patch(PODS, pod, {"metadata": {"labels": dict.fromkeys(IDENTITY)}}, namespace)
    until(lambda: events_of(api, namespace, "PodWithoutIdentity"), "an event")
    refused = slices("refused", 1)
    refused["spec"]["workerGroupSpecs"][0]["numOfHosts"] = HOSTS + 1
    with pytest.raises(ApiError):
        api.create(RAY_CLUSTERS, refused, namespace)
    warned = slices("warned", 0)
    warned["spec"]["workerGroupSpecs"][0]["rayStartParams"] = {"num_cpus": "1"}
    api.create(RAY_CLUSTERS, warned, namespace)


def queries() -> Iterator[tuple[str, str]]:
    """Yield panel and query, with the variables filled in as Grafana does."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            text: str = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            yield panel["title"], text


def test_every_panel_of_the_dashboard_shows_data(
    gated_plane: ControlPlane, publisher: Webhook, tmp_path: Path
) -> None:
    namespace = gated_plane.namespace("watched")
    with Prometheus(gated_plane, publisher, tmp_path) as prometheus:
        happen(gated_plane, namespace)
        asked = {name for _, text in queries() for name in OUR_METRIC.findall(text)}
        stems = {re.sub(r"_(?:total|bucket)$", "", name) for name in asked}
        known = prometheus.metadata()
        exposed = known | {re.sub(r"_total$", "", name) for name in known}
        assert stems <= exposed, "every metric is exposed, also those of failures"
        until_equal(lambda: empty(prometheus), list[tuple[str, str]](), "every panel shows data")
        assert namespace in prometheus.values("raycluster_namespace", "ray_webhook_replicas")
        clusters = prometheus.values("raycluster", "ray_webhook_replicas")
        assert {"gang", "llama"} <= set(clusters)
        query = 'ray_webhook_pods_without_identity{raycluster="llama"}'
        until_equal(
            lambda: [each["value"][1] for each in prometheus.query(query)],
            ["1"],
            "the pod without its identity is counted",
        )
    for name in ("gang", "llama", "warned"):
        gated_plane.delete_ray_cluster(name, namespace)


def empty(prometheus: Prometheus) -> list[tuple[str, str]]:
    return [(title, text) for title, text in queries() if not prometheus.query(text)]
