"""Shard variables on the pods of a RayCluster that has an index."""

import msgspec
import pytest

from tests.builders import Webhook, a_cluster, a_pod, cluster_config, decide, env_of
from webhook.api import names

SHARD = a_cluster("c").group("g").opting(shard_group="search", shard_index="3")


@pytest.mark.parametrize("node_type", ["head", "worker"])
def test_every_container_of_head_and_workers_knows_its_shard(node_type: str) -> None:
    pod = a_pod().worker("g").of("c").label(names.LABEL_NODE_TYPE, node_type)
    decided = decide(pod.container("sidecar").init("wait"), SHARD)
    for container in ("ray-worker", "sidecar", "wait"):
        found = env_of(decided.pod, container)
        assert (found[names.RAY_SHARD_INDEX], found[names.RAY_SHARD_GROUP]) == ("3", "search")
    assert decided.answer.warnings == ()


def test_a_value_of_the_user_stays_with_a_warning() -> None:
    decided = decide(a_pod().worker("g").of("c").env(names.RAY_SHARD_INDEX, "9"), SHARD)
    assert env_of(decided.pod)[names.RAY_SHARD_INDEX] == "9"
    assert env_of(decided.pod)[names.RAY_SHARD_GROUP] == "search"
    assert len(decided.answer.warnings) == 1


@pytest.mark.parametrize("index", ["", "x", "01"])
def test_a_cluster_without_an_index_warns_and_sets_nothing(index: str) -> None:
    webhook = Webhook()
    webhook.clusters.put(msgspec.structs.replace(cluster_config(SHARD), shard_index=index))
    decided = webhook.admit(a_pod().worker("g").of("c").build())
    assert names.RAY_SHARD_INDEX not in env_of(decided.pod)
    (warning,) = decided.answer.warnings
    assert names.ANNOTATION_SHARD_INDEX in warning


def test_a_cluster_in_a_file_has_the_index_that_its_creation_would_have_given_it() -> None:
    first = SHARD.build()
    second = a_cluster("d").group("g").opting(shard_group="search").build()
    webhook = Webhook(second, first)
    for cluster, index in (("d", "0"), ("c", "3")):
        pod = webhook.admit(a_pod().worker("g").of(cluster).build()).pod
        assert env_of(pod)[names.RAY_SHARD_INDEX] == index


def test_an_index_alone_is_no_shard() -> None:
    decided = decide(a_pod().worker("g").of("c"), a_cluster("c").group("g").opting(shard_index="0"))
    assert names.RAY_SHARD_INDEX not in env_of(decided.pod)
    assert decided.answer.warnings == ()


def test_all_containers_know_how_many_shards_there_are() -> None:
    counted = a_cluster("c").group("g").opting(shard_group="search", shard_index="3")
    pod = a_pod().worker("g").of("c").container("sidecar")
    decided = decide(pod, counted.opting(shard_count="8"))
    for container in ("ray-worker", "sidecar"):
        assert env_of(decided.pod, container)[names.RAY_SHARD_COUNT] == "8"
    assert names.RAY_SHARD_COUNT not in env_of(decide(a_pod().worker("g").of("c"), SHARD).pod)
