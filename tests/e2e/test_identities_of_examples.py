"""Every example in a real cluster: its pods are stored as `ray-webhook preview` prints them, and
are consistent with each other.
"""

import json
import subprocess
import sys
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
from tests.harness.identities import Held, identity_of
from webhook.api import names

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
    stored: Stored, stem: str, tmp_path: Path
) -> None:
    cluster = example(stem)
    shown = {worker_index(pod): cluster_config(pod) for pod in mutate(cluster, stored, tmp_path)}
    found = {worker_index(pod): cluster_config(pod) for pod in stored.of(cluster)}
    assert found.keys() == shown.keys()
    assert [
        (place, *difference)
        for place in shown
        for difference in differences(found[place], shown[place])
    ] == []


@pytest.mark.parametrize("stem", STEMS)
def test_no_identity_is_held_twice_and_none_is_skipped(stored: Stored, stem: str) -> None:
    cluster = example(stem)
    pods = stored.of(cluster)
    assert wrong_identities(pods, cluster) == []
    assert len({identity_of(pod) for pod in pods} - {None}) == len(pods)


@pytest.mark.parametrize("stem", STEMS)
def test_the_variables_of_a_host_agree_with_its_labels_and_its_host_name(
    stored: Stored, stem: str
) -> None:
    for pod in stored.of(example(stem)):
        held, spec = identity(pod), pod["spec"]
        address = f"{spec.get('hostname')}.{spec.get('subdomain')}"
        for container in spec["containers"]:
            env = {each["name"]: each.get("value", "") for each in container["env"]}
            processes = (
                sum(names.TPU_PROCESS_PORT in str(each.get("env")) for each in spec["containers"])
                or 1
            )
            if (number := env.get(names.TPU_WORKER_ID)) is not None:
                assert int(number) // processes == held.host
            if (hosts := env.get(names.TPU_WORKER_HOSTNAMES)) is not None:
                assert hosts.split(",")[held.host].startswith(address)
                assert spec["hostname"] == f"{held.group}-{held.replica}-{held.host}"
            if (rank := env.get(names.NODE_RANK)) is not None:
                assert int(rank) == held.host < int(env[names.NNODES])
                assert env[names.MASTER_ADDR].startswith(
                    f"{held.group}-{held.replica}-0.{held.cluster}-headless"
                )
            if (name := env.get(names.TPU_NAME)) is not None:
                assert name == f"{held.group}-{held.replica}"
            if (slice_id := env.get(names.MEGASCALE_SLICE_ID)) is not None:
                assert int(slice_id) == held.replica


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


@pytest.mark.parametrize("stem", STEMS)
def test_the_hosts_of_a_replica_keep_together_and_apart_from_others(
    stored: Stored, stem: str
) -> None:
    for pod in stored.of(example(stem)):
        held = identity(pod)
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        together = pod["spec"].get("affinity", {}).get("podAffinity", {}).get(required, [])
        wanted = {names.LABEL_CLUSTER: held.cluster, names.LABEL_REPLICA_NAME: held.name}
        on_tpu = any(
            names.RESOURCE_TPU in each["resources"]["limits"] for each in pod["spec"]["containers"]
        )
        placed = pod["metadata"].get("annotations", {}).keys() & set(names.KUEUE_TOPOLOGIES)
        if held.name and not placed and (on_tpu or stem == "gpu-nvlink-domain"):
            assert [term["labelSelector"]["matchLabels"] for term in together] == [wanted]
            assert len({term["topologyKey"] for term in together}) == 1
        else:
            assert together == []


def identity(pod: Json) -> Held:
    held = identity_of(pod)
    assert held is not None, pod["metadata"]["name"]
    return held


def mutate(cluster: Json, stored: Stored, folder: Path) -> Objects:
    path = folder / "cluster.yaml"
    path.write_text(
        yaml.safe_dump(
            {**cluster, "metadata": {**cluster["metadata"], "namespace": stored.namespace}}
        )
    )
    flags = ["--multi-host-indexing"] if stored.indexing else []
    command = [
        sys.executable, "-m", "webhook.cli.main", "preview", "-f", str(path), "-o", "json", *flags,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    pods: Objects = json.loads(done.stdout)["items"]
    return [
        pod
        for pod in pods
        if pod["metadata"]["labels"][names.LABEL_NODE_TYPE] == names.NODE_TYPE_WORKER
    ]


def worker_index(pod: Json) -> tuple[str, int, int]:
    """The identity of a pod, but for the replica's name, which is drawn."""
    held = identity(pod)
    return held.group, held.replica, held.host


def cluster_config(pod: Json) -> Json:
    """All that the webhook may write, with one name for replicas, without KubeRay's variables."""
    spec, labels = pod["spec"], pod["metadata"]["labels"]
    found = {
        "labels": {key: labels.get(key) for key in LABELS},
        "named": names.LABEL_REPLICA_NAME in labels,
        "hostname": spec.get("hostname"),
        "subdomain": spec.get("subdomain"),
        "affinity": spec.get("affinity"),
        "env": {
            each["name"]: variables(each)
            for each in [*spec["containers"], *spec.get("initContainers", [])]
        },
    }
    text = json.dumps(found)
    if name := identity(pod).name:
        text = text.replace(name, "NAME")
    decoded: Json = json.loads(text)
    return decoded


def differences(found: Json, shown: Json) -> list[tuple[str, object, object]]:
    left, right = (
        {**cluster_config, **cluster_config["env"], "env": list(cluster_config["env"])}
        for cluster_config in (found, shown)
    )
    return [
        (key, left.get(key), right.get(key))
        for key in left | right
        if left.get(key) != right.get(key)
    ]


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
