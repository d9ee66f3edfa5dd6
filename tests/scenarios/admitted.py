"""The pods of each scenario after admission over HTTPS, as its want.yaml contains them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from tests.harness.apiserver import ApiServer, Object, RefusedError
from tests.harness.server import serving
from webhook.cli.files import read_manifests
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.views import as_cluster

SCENARIOS = sorted(path.parent for path in Path(__file__).parent.glob("*/input.yaml"))


def state_of(scenario: Path) -> list[Path]:
    path = scenario / "state.yaml"
    return [path] if path.exists() else []


def created(scenario: Path) -> list[Object]:
    pods: list[Object] = []
    for manifest in read_manifests([scenario / "input.yaml"]):
        pods += (
            expand(manifest.document, as_cluster(manifest))
            if manifest.kind == "RayCluster"
            else [manifest.document]
        )
    return pods


@contextmanager
def admission() -> Iterator[ApiServer]:
    """Yield an API server whose webhook has the RayClusters and pods of all scenarios."""
    state = [path for scenario in SCENARIOS for path in state_of(scenario)]
    clusters = [
        manifest.document
        for scenario in SCENARIOS
        for manifest in read_manifests([scenario / "input.yaml"])
        if manifest.kind == "RayCluster"
    ]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "clusters.yaml"
        file.write_text(yaml.safe_dump_all(clusters))
        with (
            serving(Path(folder), [*state, file]) as server,
            ApiServer(server.url, server.authority) as api,
        ):
            yield api


def admitted(scenario: Path, api: ApiServer) -> list[Object]:
    return [_admitted(api, pod, number) for number, pod in enumerate(created(scenario))]


def _admitted(api: ApiServer, pod: Object, number: int) -> Object:
    try:
        return api.admit(pod, uid=f"pod-{number}")[0]
    except RefusedError as error:
        status = error.status
    assert (status["code"], status["reason"]) == (422, "Invalid")
    return {"refused": [cause["field"] for cause in status["details"]["causes"]]}


def text_of(documents: Sequence[Object]) -> str:
    text: str = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)
    return text
