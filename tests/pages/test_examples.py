"""The examples are consistent: names fit, topologies have the hosts of their groups, and each can
be applied to a real cluster.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import ROOT
from webhook.accelerators.slices import accelerator_type, chips_of, hosts_of
from webhook.api import names
from webhook.api.formats import is_dns_label, is_label_value
from webhook.api.quantity import parse_count, parse_quantity
from webhook.cli.files import read_manifests
from webhook.groups.naming import REPLICA_NAME_GROUP_MAX, headless_service, host_name
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.reader import Manifest
from webhook.manifest.views import as_cluster

Object = dict[str, Any]

EXAMPLES = ROOT / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))


class Group(NamedTuple):
    """One worker group of an example."""

    path: Path
    cluster: Object
    group: Object

    @property
    def spec(self) -> Object:
        found: Object = self.group["template"]["spec"]
        return found


def groups() -> Iterator[Group]:
    for path in FILES:
        for manifest in read_manifests([path]):
            for group in manifest.document["spec"]["workerGroupSpecs"]:
                yield Group(path, manifest.document, group)


def annotations_of(manifest: Manifest) -> dict[str, str]:
    found: dict[str, str] = manifest.document["metadata"].get("annotations", {})
    return found


def asks_for(path: Path, key: str, value: str = "") -> bool:
    """Return whether the RayCluster of an example has an annotation, of this value if given."""
    found = annotations_of(read_manifests([path])[0]).get(key)
    return found is not None and (not value or found == value)


each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
each_group = pytest.mark.parametrize(
    "group", list(groups()), ids=lambda group: f"{group.path.stem}:{group.group['groupName']}"
)


def chips(group: Group) -> int:
    return sum(
        parse_count(each["resources"]["limits"].get(names.RESOURCE_TPU, 0))
        for each in group.spec["containers"]
    )


def test_every_kind_of_cluster_that_we_know_has_an_example() -> None:
    found = {
        "multi-host": any(group.group["numOfHosts"] > 1 for group in groups()),
        "single-host": any(group.group["numOfHosts"] == 1 and chips(group) for group in groups()),
        "64 hosts": any(group.group["numOfHosts"] == 64 for group in groups()),
        "two TPU containers": any(
            len(group.spec["containers"]) == 2 and chips(group) for group in groups()
        ),
        "sidecar and init": any(
            "initContainers" in group.spec and len(group.spec["containers"]) > 1
            for group in groups()
        ),
        "affinity": any("affinity" in group.spec for group in groups()),
        "autoscaled": any(
            group.cluster["spec"].get("enableInTreeAutoscaling") for group in groups()
        ),
        "multi-slice": any(names.MEGASCALE_NUM_SLICES in str(group.spec) for group in groups()),
        "gang per group": any(
            asks_for(path, names.ANNOTATION_SCHEDULING_GROUP, "worker-group") for path in FILES
        ),
        "gang per replica": any(
            asks_for(path, names.ANNOTATION_SCHEDULING_GROUP, "replica") for path in FILES
        ),
        "shard": any(asks_for(path, names.ANNOTATION_SHARD_GROUP) for path in FILES),
        "resized in place": any(asks_for(path, names.ANNOTATION_IPPR) for path in FILES),
        "sub-slice": any(names.ANNOTATION_SLICE_TOPOLOGY in str(group.group) for group in groups()),
        "queued": any(
            names.LABEL_KUEUE_QUEUE in str(group.cluster["metadata"]) for group in groups()
        ),
        "mixed": any(
            len(read_manifests([path])[0].document["spec"]["workerGroupSpecs"]) > 2
            for path in FILES
        ),
    }
    assert [kind for kind, there in found.items() if not there] == []


@each_file
def test_it_is_one_ray_cluster_with_a_name_that_kuberay_accepts(path: Path) -> None:
    (manifest,) = read_manifests([path])
    name = manifest.document["metadata"]["name"]
    assert (manifest.document["apiVersion"], manifest.kind) == ("ray.io/v1", "RayCluster")
    assert is_dns_label(name)
    assert name[0].isalpha()
    assert len(name) <= 53
    assert is_dns_label(headless_service(name))


def test_no_two_examples_have_one_name() -> None:
    found = [manifest.document["metadata"]["name"] for manifest in read_manifests(FILES)]
    assert len(set(found)) == len(found)


@each_file
def test_its_group_names_differ(path: Path) -> None:
    (manifest,) = read_manifests([path])
    found = [group["groupName"] for group in manifest.document["spec"]["workerGroupSpecs"]]
    assert len(set(found)) == len(found)


@each_file
def test_its_annotations_are_ours_or_rays_and_its_first_line_says_what_it_is(path: Path) -> None:
    (manifest,) = read_manifests([path])
    assert all(
        key.startswith(names.PREFIX) or key == names.ANNOTATION_IPPR
        for key in annotations_of(manifest)
    )
    assert path.read_text().startswith("# ")


@each_group
def test_its_replicas_are_within_their_bounds(group: Group) -> None:
    given = group.group
    assert 0 <= given["minReplicas"] <= given["replicas"] <= given["maxReplicas"]


@each_group
def test_its_names_fit_a_label_and_a_host_name(group: Group) -> None:
    name, hosts = group.group["groupName"], group.group["numOfHosts"]
    assert is_label_value(name)
    if hosts > 1:
        assert len(name) <= REPLICA_NAME_GROUP_MAX
        assert is_dns_label(host_name(name, group.group["maxReplicas"] - 1, hosts - 1))


@each_group
def test_its_topology_has_as_many_hosts_as_the_group(group: Group) -> None:
    selected, hosts = group.spec.get("nodeSelector", {}), group.group["numOfHosts"]
    annotations = group.group["template"].get("metadata", {}).get("annotations", {})
    formed = names.KUEUE_SLICE_REQUIRED_TOPOLOGY in annotations
    assert (
        bool(chips(group))
        == (names.NODE_TPU_TOPOLOGY in selected or formed)
        == (names.NODE_TPU_ACCELERATOR in selected)
    )
    if chips(group):
        topology = (
            annotations.get(names.ANNOTATION_SLICE_TOPOLOGY) or selected[names.NODE_TPU_TOPOLOGY]
        )
        assert hosts_of(topology, chips(group)) == hosts
        assert accelerator_type(selected[names.NODE_TPU_ACCELERATOR], chips_of(topology))
        assert annotations.get(names.KUEUE_SLICE_SIZE, str(hosts)) == str(hosts)


@each_group
def test_its_devices_are_requested_as_they_are_limited(group: Group) -> None:
    for container in group.spec["containers"]:
        limits, requests = container["resources"]["limits"], container["resources"]["requests"]
        assert limits.keys() == requests.keys()
        assert all(
            parse_quantity(limits[key]) == parse_quantity(requests[key]) > 0 for key in limits
        )


@each_group
def test_its_number_of_slices_is_its_number_of_replicas(group: Group) -> None:
    for container in group.spec["containers"]:
        for variable in container.get("env", []):
            if variable["name"] == names.MEGASCALE_NUM_SLICES:
                assert variable["value"] == str(group.group["replicas"])


@each_file
def test_its_pods_are_as_many_as_it_says(path: Path) -> None:
    (manifest,) = read_manifests([path])
    given = manifest.document["spec"]["workerGroupSpecs"]
    pods = list(expand(manifest.document, as_cluster(manifest)))
    assert len(pods) == 1 + sum(group["replicas"] * group["numOfHosts"] for group in given)
    assert len({id(pod["spec"]) for pod in pods}) == len(pods)
