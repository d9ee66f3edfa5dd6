"""Ray node labels of location: zone and region by the policy, replica and host by an opt-in."""

import json
from typing import Any

import pytest

from tests.builders import (
    ClusterBuilder,
    Object,
    PodBuilder,
    a_cluster,
    a_pod,
    decide,
    env_names,
    env_of,
)
from webhook.api import names
from webhook.mutation.ray_pod import Policy

ZONES = Policy(zones=True)
ZONE = "<metadata.labels['topology.kubernetes.io/zone']>"
REGION = "<metadata.labels['topology.kubernetes.io/region']>"


def a_worker() -> PodBuilder:
    return a_pod().of("c").worker("g")


def labelled(**group: Any) -> ClusterBuilder:  # noqa: ANN401 - fields of a group, as they are
    cluster = a_cluster("c").group("g", hosts=2, **group)
    return cluster.opting(replica_label="true")


def override(pod: Object) -> dict[str, str]:
    found: dict[str, str] = json.loads(env_of(pod)[names.RAY_OVERRIDE_LABELS])
    return found


@pytest.mark.parametrize("head", [True, False])
def test_the_first_container_of_heads_and_workers_knows_zone_and_region(head: bool) -> None:
    pod = a_worker().head() if head else a_worker()
    env = env_of(decide(pod, a_cluster("c").group("g"), ZONES).pod)
    assert (env[names.RAY_NODE_ZONE], env[names.RAY_NODE_REGION]) == (ZONE, REGION)


def test_without_the_policy_no_pod_gets_it() -> None:
    decided = decide(a_worker(), a_cluster("c").group("g"))
    assert env_names(decided.pod) == []


def test_a_zone_of_the_user_stays() -> None:
    pod = a_worker().env(names.RAY_NODE_ZONE, "mine")
    decided = decide(pod, a_cluster("c").group("g"), ZONES)
    found = env_of(decided.pod)
    assert (found[names.RAY_NODE_ZONE], found[names.RAY_NODE_REGION]) == ("mine", REGION)
    assert not decided.answer.warnings


def test_a_group_of_single_hosts_has_the_index_alone() -> None:
    cluster = a_cluster("c").group("g").opting(replica_label="true")
    assert override(decide(a_worker(), cluster).pod) == {names.LABEL_REPLICA_INDEX: "0"}


def test_where_kuberay_delivers_labels_of_nodes_the_webhook_adds_none() -> None:
    cluster = labelled().opting(node_labels="zone=z")
    decided = decide(a_worker().env(names.KUBERAY_NODE_LABELS, "{}"), cluster, ZONES)
    assert not {names.RAY_OVERRIDE_LABELS, names.RAY_NODE_ZONE} & {*env_names(decided.pod)}
    assert names.KUBERAY_NODE_LABELS in decided.answer.warnings[0]


CLIQUE, DOMAIN = "nvidia.com/gpu.clique", "ray.io/gpu-domain"


def test_a_label_of_the_node_becomes_a_label_of_the_ray_node() -> None:
    cluster = a_cluster("c").group("g")
    cluster.opting(node_labels=f"{CLIQUE}={DOMAIN}")
    found = decide(a_worker(), cluster).pod
    assert override(found) == {DOMAIN: f"$({names.NODE_LABEL}0)"}
    assert env_of(found)[f"{names.NODE_LABEL}0"] == f"<metadata.annotations['{CLIQUE}']>"
    listed = env_names(found)  # the kubelet fills in what comes before
    assert listed.index(f"{names.NODE_LABEL}0") < listed.index(names.RAY_OVERRIDE_LABELS)


def test_labels_of_the_node_stand_beside_those_of_the_replica_once() -> None:
    cluster = labelled().opting(node_labels=f"{CLIQUE}={DOMAIN},rack=rack")
    once = decide(a_worker(), cluster).pod
    assert override(once).keys() == {*names.IDENTITY_LABELS, DOMAIN, "rack"}
    assert decide(once, cluster).patch == []


def test_a_label_that_is_not_allowed_is_not_passed_on() -> None:
    cluster = a_cluster("c").group("g")
    cluster.opting(node_labels=f"{CLIQUE}={DOMAIN}")
    policy = Policy(node_labels=frozenset({"rack"}))
    found = decide(a_worker(), cluster, policy)
    assert names.RAY_OVERRIDE_LABELS not in env_names(found.pod)
    assert found.answer.warnings


def test_labels_of_the_user_stay_with_a_warning() -> None:
    pod = a_worker().env(names.RAY_OVERRIDE_LABELS, '{"rack": "7"}')
    decided = decide(pod, labelled())
    assert override(decided.pod) == {"rack": "7"}
    assert names.RAY_OVERRIDE_LABELS in decided.answer.warnings[0]
