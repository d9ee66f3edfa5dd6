"""The page of the demonstration: its objects as files, and `ray-webhook dashboard` on them."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx

from tests import ROOT
from tests.harness.server import serving_dashboard
from webhook.manifest.reader import Manifest
from webhook.manifest.views import as_cluster

Object = dict[str, Any]

FOLDER: Final = ROOT / ".cache" / "demo"
COMMAND: Final = ".venv/bin/ray-webhook dashboard --state .cache/demo"


def write(manifests: Sequence[Manifest], pods: Iterable[Object]) -> None:
    """Write the state that was played, as if all of its pods had run for an hour."""
    since = f"{datetime.now(UTC) - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    clusters = []
    for manifest in manifests:
        meta = as_cluster(manifest).metadata
        given = {"namespace": meta.namespace, "uid": meta.uid, "creationTimestamp": since}
        document = manifest.document
        clusters.append({**document, "metadata": {**document["metadata"], **given}})
    items = [*clusters, *(_running(pod, since) for pod in pods)]
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "state.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    )


def looked_at() -> Object:
    """Serve the page on a free port, let a browser in, and return what it shows, as JSON."""
    with (
        serving_dashboard("--state", str(FOLDER)) as address,
        httpx.Client(follow_redirects=True, timeout=30) as client,
    ):
        page = client.get(address)
        assert page.status_code == httpx.codes.OK, page.text
        assert 'id="clusters"' in page.text
        found: Object = client.get(str(page.url.join("/api/v1/status"))).json()
        return found


def _running(pod: Object, since: str) -> Object:
    meta = {"namespace": "default", **pod["metadata"], "creationTimestamp": since}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    spec = {**pod["spec"], "nodeName": f"node-of-{meta['name']}"}
    return {**pod, "metadata": meta, "spec": spec, "status": status}
