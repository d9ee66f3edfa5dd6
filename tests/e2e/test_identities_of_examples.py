"""Every example in a real cluster: its pods are stored as `ray-webhook preview` prints them, and
are consistent with each other.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.e2e import needs
from tests.e2e.api import RAY_CLUSTERS, SERVICES, Json, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kuberay import Operator
from tests.e2e.rays import EXAMPLES, example, wait_for_workers, wrong_identities
from tests.e2e.webhook_process import Webhook
from tests.harness.identities import identity_of
from webhook.api import names
from webhook.cli.main import main

pytestmark = pytest.mark.e2e

STEMS = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))
LABELS = (names.LABEL_REPLICA_INDEX, names.LABEL_HOST_INDEX, names.LABEL_LEGACY_REPLICA_INDEX)
KUBERAYS = ("FQ_RAY_IP", "KUBERAY_", "RAY_")


class Stored(NamedTuple):
    """The workers of all examples, as they are stored."""

    namespace: str
    indexing: bool
    pods: Objects

    def of(self, cluster: Json) -> Objects:
        return [
            pod
            for pod in self.pods
            if pod["metadata"]["labels"][names.LABEL_CLUSTER] == cluster["metadata"]["name"]
        ]


@pytest.fixture(scope="module", params=[False, True], ids=["gate off", "gate on"])
def stored(
    request: pytest.FixtureRequest, control_plane: ControlPlane, webhook: Webhook
) -> Iterator[Stored]:
    """All examples at once, in one namespace, with KubeRay's own indexing off and on."""
    assert webhook.ready
    indexing: bool = request.param
    namespace = control_plane.namespace(f"examples-{'on' if indexing else 'off'}")
    clusters = [example(stem) for stem in STEMS]
    with Operator(control_plane, multi_host_indexing=indexing):
        for cluster in clusters:
            control_plane.api.create(RAY_CLUSTERS, cluster, namespace)
        count = sum(
            group["replicas"] * group["numOfHosts"]
            for each in clusters
            for group in each["spec"]["workerGroupSpecs"]
        )
        yield Stored(namespace, indexing, wait_for_workers(control_plane.api, namespace, count))
        for cluster in clusters:
            control_plane.delete_ray_cluster(cluster["metadata"]["name"], namespace)


@pytest.mark.parametrize("stem", STEMS)
def test_the_pods_are_stored_as_the_command_line_shows_them(
    stored: Stored, stem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, pods = example(stem), stored.of(example(stem))
    cluster["metadata"]["namespace"] = stored.namespace
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(cluster))
    flags = ["--multi-host-indexing"] if stored.indexing else []
    assert main(["preview", "-f", str(path), "-o", "json", *flags]) == 0
    _, *shown = json.loads(capsys.readouterr().out)["items"]
    assert wrong_identities(pods, cluster) == []
    assert configs(pods) == configs(shown)


@pytest.mark.parametrize("stem", STEMS)
def test_the_host_names_of_a_replica_are_those_of_a_service(
    control_plane: ControlPlane, stored: Stored, stem: str
) -> None:
    needs.HEADLESS_SERVICE.ask()
    services = {
        each["metadata"]["name"]: each["spec"].get("clusterIP")
        for each in control_plane.api.list(SERVICES, stored.namespace)
    }
    for pod in stored.of(example(stem)):
        if subdomain := pod["spec"].get("subdomain"):
            assert services.get(subdomain) == "None", f"{subdomain} is no headless service"


def configs(pods: Objects) -> dict[tuple[str, int, int], Json]:
    """Return all that the webhook may write, by identity, with one name for replicas."""
    identities = [(pod, held) for pod in pods if (held := identity_of(pod))]
    assert len(identities) == len(pods)
    return {
        (held.group, held.replica, held.host): json.loads(
            json.dumps(config(pod)).replace(held.name or "NAME", "NAME")
        )
        for pod, held in identities
    }


def config(pod: Json) -> Json:
    spec, labels = pod["spec"], pod["metadata"]["labels"]
    return {
        "labels": {key: labels.get(key) for key in LABELS},
        "named": names.LABEL_REPLICA_NAME in labels,
        "hostname": spec.get("hostname"),
        "subdomain": spec.get("subdomain"),
        "affinity": spec.get("affinity"),
        "env": [
            [each["name"], variables(each)]
            for each in [*spec["containers"], *spec.get("initContainers", [])]
        ],
    }


def variables(container: Json) -> list[Json]:
    """The variables of a container that KubeRay did not write, in their order."""
    return [
        normal(each) for each in container.get("env") or [] if not each["name"].startswith(KUBERAYS)
    ]


def normal(variable: Json) -> Json:
    """A variable without the default that the API server writes."""
    if reference := variable.get("valueFrom", {}).get("fieldRef"):
        return {"name": variable["name"], "fieldPath": reference["fieldPath"]}
    return {"name": variable["name"], "value": variable.get("value", "")}
