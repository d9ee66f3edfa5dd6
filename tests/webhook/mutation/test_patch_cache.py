"""The patch cache: its answers equal those computed without it, after any requests."""

import gc
import tracemalloc
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.builders import PodBuilder, a_cluster, a_pod, cluster_config, manifest
from tests.webhook.mutation.strategies import Case, cases
from webhook.api import names
from webhook.api.objects import Pod
from webhook.api.review import Answer, Denied
from webhook.api.tenant_cache import TenantCache
from webhook.groups.group_config import RayClusterConfig, read_cluster_config
from webhook.groups.identity import MAX_REPLICAS, HostIdentity
from webhook.manifest.views import as_cluster, as_pod
from webhook.mutation.patch_template import PatchCache
from webhook.mutation.pipeline import answer
from webhook.mutation.ray_pod import HEAD_GROUP, HEAD_IDENTITY, Policy, read_replica

TPU_GROUP = a_cluster("c").group("g", hosts=4, replicas=4)
GANG = a_cluster("c").group("g", hosts=4, replicas=4).opting(scheduling_group="replica")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
INDICES = [0, 1, 9, 10, 123, MAX_REPLICAS - 1]


class Ask(NamedTuple):
    """What a cache is asked for, and what is right."""

    pod: Pod
    identity: HostIdentity
    cluster: RayClusterConfig
    group: str = "g"
    holder: str = "0123456789ab"
    policy: Policy = Policy()

    def cached(self, cache: PatchCache) -> Answer | str:
        try:
            return cache.answer(
                self.pod, self.identity, self.cluster, self.cluster.groups[self.group], self.policy,
                holder=self.holder)  # fmt: skip
        except Denied as denied:
            return str(denied)

    def uncached(self) -> Answer | str:
        group = self.cluster.groups[self.group]
        try:
            replica = read_replica(
                self.pod, self.identity, self.cluster, group, holder=self.holder, policy=self.policy
            )
            return answer(replica, self.identity.host)
        except Denied as denied:
            return str(denied)


def tpu_pod() -> PodBuilder:
    """Return a pod whose patches differ in the identity alone."""
    return a_pod().of("c").worker("g").tpu(4).topology("2x2x4")


def read(pod: PodBuilder) -> Pod:
    return as_pod(manifest(pod.build()))


def warm(
    pod: PodBuilder,
    cluster: RayClusterConfig,
    group: str = "g",
    name: str = "g-",
    *,
    holder: str = "0123456789ab",
) -> PatchCache:
    """Return a cache that has seen a few pods like this one, and check what it said of them."""
    cache = PatchCache()
    for number in range(3):
        identity = HostIdentity(number, 0, f"{name}bcdf{number}" if name else "")
        ask = Ask(read(pod), identity, cluster, group, holder)
        assert ask.cached(cache) == ask.uncached()
    return cache


@settings(
    max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(
    cases(),
    st.lists(
        st.tuples(st.sampled_from(INDICES), st.integers(0, 4095), st.booleans()),
        min_size=3,
        max_size=6,
    ),
    st.booleans(),
)
def test_any_template_fits(case: Case, places: list[tuple[int, int, bool]], assigned: bool) -> None:
    labels = case.pod["metadata"]["labels"]
    assume(labels[names.LABEL_NODE_TYPE] == names.NODE_TYPE_WORKER)
    cluster = read_cluster_config(as_cluster(manifest(case.cluster)))
    group = cluster.groups[labels[names.LABEL_GROUP]]
    cache = PatchCache()
    for number, (index, host, odd) in enumerate(places):
        name = (
            ("odd" if odd and not assigned else f"{group.group_name}-bcdf{number}")
            if group.num_of_hosts > 1
            else ""
        )
        ask = Ask(
            as_pod(manifest(case.pod)), HostIdentity(index, host % group.num_of_hosts, name),
            cluster, group.group_name, "0123456789ab" if assigned else "")  # fmt: skip
        assert ask.cached(cache) == ask.uncached()
    event("filled in" if cache.hits else "worked out one by one")


@pytest.mark.parametrize("holders", [("0123456789ab", "ba9876543210"), ("", "")])
@pytest.mark.parametrize("index", INDICES)
def test_filled_in_is_what_is_worked_out(index: int, holders: tuple[str, str]) -> None:
    cluster = cluster_config(GANG)
    cache = warm(tpu_pod(), cluster, holder=holders[0])
    for host, holder in zip((0, 3), holders, strict=True):
        ask = Ask(read(tpu_pod()), HostIdentity(index, host, "g-x7k2p"), cluster, holder=holder)
        assert ask.cached(cache) == ask.uncached()
    assert (cache.misses, cache.hits) == (1, 4)


def test_replicas_that_take_turns_each_get_their_own() -> None:
    cluster = cluster_config(GANG)
    cache = warm(tpu_pod(), cluster)
    one, other, later = (1, "g-x7k2p"), (2, "g-x7k2p"), (1, "g-bcdfg")
    for turn, (index, name) in enumerate([one, one, other, one, later, one, later]):
        ask = Ask(read(tpu_pod()), HostIdentity(index, turn % 4, name), cluster)
        assert ask.cached(cache) == ask.uncached()
    assert cache.misses == 1


def test_hosts_of_each_device_are_filled_in() -> None:
    several, single = (cluster_config(a_cluster("c").group("g", hosts=hosts)) for hosts in (4, 1))
    pod = a_pod().of("c").worker("g")
    assert warm(pod, single, name="", holder="").hits == 2  # no patch
    assert warm(pod.tpu(4), single, name="").hits == 2
    assert warm(a_pod().of("c").worker("g").gpu(8), several).hits == 2
    two_processes = a_pod().of("c").worker("g").topology("2x2x4", "tpu7x").tpu(2)
    assert warm(two_processes.container("second").tpu(2), several).hits == 2


@pytest.mark.parametrize("name", ["g-abc", "other-bcdfg", "g-bcd_g", "g-BCDFG", "bcdfg", "g-abcde"])
def test_a_replica_whose_name_is_spelt_otherwise_is_worked_out(name: str) -> None:
    cluster = cluster_config(GANG)
    cache = warm(tpu_pod(), cluster, holder="")
    ask = Ask(read(tpu_pod()), HostIdentity(0, 1, name), cluster, holder="")
    hits = cache.hits
    assert ask.cached(cache) == ask.uncached()
    assert cache.hits == hits


@pytest.mark.parametrize(
    "group", ["g9876543", "g8765432", "zz9zz", "yy8yy", "g7654321", "g6543217"]
)
def test_texts_of_the_user_that_look_like_a_part_of_a_identity_do_no_harm(group: str) -> None:
    cluster = cluster_config(a_cluster("c").group(group, hosts=4))
    warm(a_pod().of("c").worker(group).tpu(4).topology("2x2x4"), cluster, group, f"{group}-")


OF_ONE_REPLICA = {
    "labelSelector": {
        "matchLabels": {names.LABEL_REPLICA_NAME: "g-bcdf2", names.LABEL_CLUSTER: "c"}
    },
    "topologyKey": names.NODE_POOL,
}
LONG = "g" * 57
OF_ONE_IDENTITY = {
    "an empty value": (tpu_pod().env(names.TPU_NAME, ""), "g"),
    "the name of one slice": (tpu_pod().env(names.TPU_NAME, "g-2"), "g"),
    "the place of one host": (tpu_pod().env(names.TPU_WORKER_ID, "2"), "g"),
    "slices that may be too many": (tpu_pod().env(names.MEGASCALE_NUM_SLICES, "2"), "g"),
    "a host name": (tpu_pod().spec(hostname="g-1-0"), "g"),
    "a term": (tpu_pod().spec(affinity={"podAffinity": {REQUIRED: [OF_ONE_REPLICA]}}), "g"),
    "names that only a short index fits": (a_pod().of("c").worker(LONG), LONG),
}


@pytest.mark.parametrize(("pod", "group"), OF_ONE_IDENTITY.values(), ids=OF_ONE_IDENTITY)
def test_a_value_of_one_identity_is_checked_for_each_pod(pod: PodBuilder, group: str) -> None:
    cluster = cluster_config(a_cluster("c").group(group, hosts=4, replicas=4))
    assert warm(pod, cluster, group, f"{group}-").hits == 0


CHANGES = {
    "a variable": tpu_pod().env("X", "1"), "devices": tpu_pod().tpu(2).topology("2x2x2"),
    "a host name": tpu_pod().spec(hostname="mine"),
    "a legacy label": tpu_pod().label(names.LABEL_LEGACY_REPLICA_INDEX, "g-7"),
    "an init container": tpu_pod().init("before"),
    "a topology in an annotation": tpu_pod().annotated(names.ANNOTATION_SLICE_TOPOLOGY, "2x2x2"),
    "a gate": tpu_pod().gated(names.KUEUE_GATE_TOPOLOGY),
    "a scheduler": tpu_pod().spec(schedulerName="volcano"),
    "a scheduling group": tpu_pod().spec(schedulingGroup={"podGroupName": "x"}),
    "a resize policy": tpu_pod().spec(containers=[{
        "name": "ray-worker", "resizePolicy": [], "resources": {}}])}  # fmt: skip


@pytest.mark.parametrize("other", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("index", [0, 5], ids=["a known replica", "another replica"])
def test_a_pod_unlike_others_gets_what_it_would_alone(other: PodBuilder, index: int) -> None:
    gang = a_cluster("c").group("g", hosts=4, replicas=4).opting(scheduling_group="replica")
    cluster = cluster_config(gang.annotated(names.ANNOTATION_IPPR, '{"groups": {"g": {}}}'))
    cache = warm(tpu_pod(), cluster)
    for pod in (other, tpu_pod(), other):
        ask = Ask(read(pod), HostIdentity(index, 1, f"g-abcd{index}"), cluster)
        assert ask.cached(cache) == ask.uncached()


def test_a_worker_group_named_like_the_head_is_not_taken_for_it() -> None:
    annotation = '{"groups": {"headgroup": {}}}'
    cluster = cluster_config(
        a_cluster("c").group(names.HEAD_GROUP, hosts=2).annotated(names.ANNOTATION_IPPR, annotation)
    )
    pod, cache = read(a_pod().of("c").worker(names.HEAD_GROUP)), PatchCache()
    for _ in range(3):
        head = read_replica(pod, HEAD_IDENTITY, cluster, HEAD_GROUP, holder="")
        assert cache.answer(pod, HEAD_IDENTITY, cluster, HEAD_GROUP, holder="") == answer(head, 0)
        ask = Ask(pod, HostIdentity(0, 1, "headgroup-bcdfg"), cluster, names.HEAD_GROUP)
        assert ask.cached(cache) == ask.uncached()


def test_new_facts_of_the_raycluster_and_a_new_policy_count_at_once() -> None:
    cache = warm(tpu_pod(), cluster_config(TPU_GROUP))
    gangs = [
        cluster_config(a_cluster("c").group("g", hosts=4, replicas=4).opting(scheduling_group=gang))
        for gang in ("replica", "worker-group")
    ]
    asks = [Ask(read(tpu_pod()), HostIdentity(0, 1, "g-bcdf0"), cluster) for cluster in gangs]
    for ask in (*asks, *asks, asks[0]._replace(policy=Policy(pod_groups=False))):
        assert ask.cached(cache) == ask.uncached()


def many_groups(namespace: str, number: int) -> RayClusterConfig:
    cluster = a_cluster("c")
    for index in range(number):
        cluster.group(f"g{index}", hosts=64)
    return structs.replace(cluster_config(cluster), namespace=namespace, uid=f"uid-of-{namespace}")


def fill(cache: PatchCache, cluster: RayClusterConfig, size: int = 0) -> None:
    """Admit two pods of each group, with as many bytes in variables."""
    pod = read(a_pod().of("c").worker("g").gpu(8).env("TEXT", "x" * size))
    for group in cluster.groups:
        for index in range(2):
            identity = HostIdentity(index, 0, f"{group}-bcdf{index}")
            Ask(pod, identity, cluster, group, "").cached(cache)


def test_the_templates_of_a_namespace_and_of_all_are_bounded_in_bytes() -> None:
    cache = PatchCache()
    cache.groups = TenantCache(2 * 1024 * 1024)
    clusters = [many_groups(f"team-{number}", 300) for number in range(6)]
    first = many_groups("first", 1)
    fill(cache, first)
    for cluster in clusters:
        before = cache.groups.size
        fill(cache, cluster)
        assert cache.groups.size - before <= cache.groups.namespace_bytes_max
    assert 1024 * 1024 < cache.groups.size <= 2 * 1024 * 1024
    hits = cache.hits
    fill(cache, first)
    assert cache.hits == hits + 2  # a small namespace is not evicted by large ones


def test_the_templates_of_a_raycluster_go_with_it() -> None:
    cache, cluster = PatchCache(), many_groups("team", 3)
    fill(cache, cluster)
    assert cache.groups.size
    del cluster
    assert cache.groups.size == 0


def test_the_bytes_of_a_large_pod_are_not_kept() -> None:
    cache, cluster = PatchCache(), many_groups("team", 100)
    tracemalloc.start()
    try:
        fill(cache, cluster, 64 * 1024)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cache.hits == 100
    assert kept < 2 * cache.groups.size < 2 * 1024 * 1024


def test_a_patch_of_very_many_hosts_is_worked_out() -> None:
    cluster = cluster_config(a_cluster("c").group("g", hosts=4096, replicas=4))
    cache = warm(a_pod().of("c").worker("g").tpu(4), cluster)
    assert (cache.hits, cache.groups.size < 4096) == (0, True)
