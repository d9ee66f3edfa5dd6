"""An object that `validate` accepts is not refused by `mutate` for its spec."""

from itertools import islice
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders import NAMESPACE, Object, Webhook, manifest, uid_of
from tests.harness.ray_objects import a_cluster
from webhook.api import names
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.views import as_cluster
from webhook.validation.ruleset import check

LEAST = 60
"""Clusters that have to pass the rules, so that the property says something."""

PODS = 6
"""Pods of a cluster that are looked at: every reason to refuse one holds for the first of its
replica.
"""


class Shape(NamedTuple):
    """Selectors and annotations of pods, the hosts of a replica, and the devices of a host."""

    selector: Object
    annotations: Object
    hosts: int
    limits: Object


V6E = {names.NODE_TPU_ACCELERATOR: "tpu-v6e-slice"}
WHOLE = V6E | {names.NODE_TPU_TOPOLOGY: "4x4"}
PARTITION = {names.KUEUE_SLICE_REQUIRED_TOPOLOGY: "cloud.google.com/gke-tpu-partition-2x2x4-id"}
SHAPES = st.sampled_from([
    Shape({}, {}, 1, {}), Shape({}, {}, 2, {}), Shape(WHOLE, {}, 4, {"google.com/tpu": "4"}),
    Shape(V6E | {names.NODE_TPU_TOPOLOGY: "2x4"}, {}, 1, {"google.com/tpu": 8}),
    Shape(WHOLE, {}, 2, {"google.com/tpu": 4}),
    Shape(WHOLE, {names.ANNOTATION_SLICE_TOPOLOGY: "2x4"}, 2, {"google.com/tpu": "4"}),
    Shape({names.NODE_TPU_ACCELERATOR: "tpu7x"}, PARTITION, 4, {"google.com/tpu": "4"}),
    Shape({}, {}, 2, {"nvidia.com/gpu": 8}),
    Shape({}, {}, 2, {"nvidia.com/gpu": "0.5"})])  # fmt: skip
NOISE = st.sampled_from([
    {}, {}, {}, {"google.com/tpu": "4"}, {"google.com/tpu": 8}, {"nvidia.com/gpu": "500m"},
    {"gpu": "0.5"}, {"cpu": "1"},
])  # fmt: skip
GROUPS = st.sampled_from(["g", "g", "g", "TPU-Group", "g" * 56, "g" * 58, "a.b", "a_b", "0"])
CLUSTERS = st.sampled_from(["c", "c", "c", "c" * 53, "a.b", "2nd"])
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        names.ANNOTATION_SLICE_TOPOLOGY: st.sampled_from(["2x2", "4x4", "2x"]),
        names.ANNOTATION_SKIP_TPU_CHECK: st.just("true"),
        names.KUEUE_UNCONSTRAINED_TOPOLOGY: st.just("true"),
    },
)
LABELS = st.sampled_from(
    [{}, {}, {}, {names.LABEL_REPLICA_INDEX: "0"}, {names.LABEL_HOST_INDEX: "x"}, {"app": "x"}]
)
VARIABLES = st.lists(
    st.sampled_from([
        {"name": names.MEGASCALE_NUM_SLICES, "value": "2"},
        {"name": names.TPU_WORKER_ID, "value": "0"}, {"name": names.NODE_RANK, "value": "1"}]),
    max_size=2)  # fmt: skip


@st.composite
def containers(draw: st.DrawFn, limits: object) -> Object:
    first: Object = {"name": "ray", "image": "rayproject/ray:2.55.1"}
    first["resources"] = {"limits": limits, "requests": limits}
    if variables := draw(VARIABLES):
        first["env"] = variables
    spec: Object = {"containers": [first]}
    if not draw(st.integers(0, 2)):
        resources = dict.fromkeys(("limits", "requests"), draw(NOISE))
        extra = {"name": "extra", "image": "extra:1", "resources": resources}
        if draw(st.booleans()):
            spec["containers"].append(extra)
        else:
            lasting = draw(st.sampled_from([{}, {"restartPolicy": "Always"}]))
            spec["initContainers"] = [extra | lasting]
    if not draw(st.integers(0, 9)):
        spec["subdomain"] = draw(st.sampled_from(["", "mine", "Mine.Own"]))
    return spec


@st.composite
def ray_clusters(draw: st.DrawFn) -> Object:
    """Return a strategy of RayClusters that people could write, and should not always."""
    selector, annotations, hosts, limits = draw(SHAPES)
    spec = draw(containers(limits))
    if selector:
        spec["nodeSelector"] = selector
    if not draw(st.integers(0, 4)):
        hosts = draw(st.sampled_from([0, 1, 2, 8, 5000]))
    if not draw(st.integers(0, 3)):
        annotations = annotations | draw(ANNOTATIONS)
    template = {"metadata": {"annotations": annotations, "labels": draw(LABELS)}, "spec": spec}
    name, most = draw(CLUSTERS), draw(st.sampled_from([2, 1000]))
    cluster = a_cluster(name).head(template={"spec": draw(containers({}))})
    scale = {"replicas": draw(st.sampled_from([1, 2])), "maxReplicas": most}
    cluster.group(draw(GROUPS), hosts=hosts, template=template, **scale)
    return cluster.meta(namespace=NAMESPACE, uid=uid_of(name)).build()


def refused(cluster: Object, *, indexed: bool) -> list[str]:
    webhook = Webhook(cluster)
    pods = islice(expand(cluster, as_cluster(manifest(cluster)), indexed=indexed), PODS)
    return [field for pod in pods for field in webhook.admit(pod).fields]


def a_single_host_of_a_multi_slice_job(group: str) -> Object:
    """Return a RayCluster whose single hosts have host names, as slices of one job."""
    cluster = a_cluster("c").group(group, replicas=2, maxReplicas=2).tpu("2x4", 8)
    cluster.env(names.MEGASCALE_NUM_SLICES, "2")
    return cluster.meta(namespace=NAMESPACE, uid=uid_of("c")).build()


@pytest.mark.parametrize(
    "indexed", [False, True], ids=["without identity labels", "with identity labels"]
)
def test_a_spec_that_passed_without_a_denial_is_not_refused_later(indexed: bool) -> None:
    passed = []

    @settings(max_examples=320)
    @given(ray_clusters())
    @example(a_single_host_of_a_multi_slice_job("a_b"))
    @example(a_single_host_of_a_multi_slice_job("g" * 61))
    def agrees(cluster: Object) -> None:
        if any(finding.level == "deny" for finding in check("RayCluster", cluster)):
            return
        passed.append(cluster)
        assert refused(cluster, indexed=indexed) == []

    agrees()
    assert len(passed) >= LEAST
