"""The pod group publisher: the objects that it creates, with concurrent changes by others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from tests.harness.fake_api import PODS, RAYCLUSTERS, FakeApi, Fault, Object, Request
from tests.harness.following import eventually
from tests.harness.objects import a_pod
from tests.harness.publishing import (
    PACE,
    Publishing,
    a_cluster,
    counts,
    edit,
    groups_of,
    lists,
    more_resyncs,
    nothing_but_resyncs,
    opted_out,
    publishing,
    resyncs,
    templates,
    writes,
)
from tests.harness.scheduling_rules import PODGROUPS, WORKLOADS
from webhook.api import names
from webhook.api.objects import RAYCLUSTER_BYTES_MAX
from webhook.controller.podgroups import podgroup_reconciler
from webhook.controller.podgroups.lifecycle import Action, Actual, decide
from webhook.controller.podgroups.podgroup_reconciler import SCHEDULING_GROUPS
from webhook.groups.annotations import CLUSTER, REPLICA, WORKER_GROUP
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.identity import HostIdentity
from webhook.groups.pod_groups import Desired

BY_GROUP = {"ray-head": 0, "ray-worker-tpu": 8}


@pytest.fixture(params=["v1", "v1beta1", "v1alpha2"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def published(api: FakeApi, version: str = "v1beta1") -> AsyncIterator[Publishing]:
    """Publish until the end of the block, which begins when a RayCluster has its objects."""
    api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP))
    async with publishing(api, version) as p:
        await eventually(lambda: counts(api) == BY_GROUP)
        yield p


def a_head() -> Object:
    pod = a_pod("ray-head", group="headgroup")
    pod["metadata"]["labels"][names.LABEL_NODE_TYPE] = names.NODE_TYPE_HEAD
    return pod


def known_to_ask(p: Publishing) -> bool:
    cluster_config = p.index.clusters.get("default", "ray")
    return cluster_config is not None and cluster_config.gang.active


async def test_a_workload_and_pod_groups_are_created_once(api: FakeApi, version: str) -> None:
    async with published(api, version) as p:
        await nothing_but_resyncs(api)
        assert p.publisher.done[PODGROUPS, "created"] == 2
    assert templates(api) == {"head": 0, "worker-tpu": 8}
    assert writes(api) == [("create", WORKLOADS), ("create", PODGROUPS), ("create", PODGROUPS)]
    for resource in (WORKLOADS, PODGROUPS):
        for found in api.objects(resource).values():
            meta = found["metadata"]
            assert meta["labels"] == {
                "ray.io/cluster": "ray",
                "app.kubernetes.io/managed-by": "ray-webhook",
            }
            owner = {
                "apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "ray", "uid": "uid-of-ray",
                "controller": True}  # fmt: skip
            assert meta["ownerReferences"] == [owner]
    assert api.objects(WORKLOADS)["ray.gang"]["spec"]["controllerRef"]["name"] == "ray"
    spec = api.objects(PODGROUPS)["ray-worker-tpu"]["spec"]
    if version == "v1alpha2":
        template = {"workloadName": "ray.gang", "podGroupTemplateName": "worker-tpu"}
        assert spec["podGroupTemplateRef"] == {"workload": template}
    else:
        template = {"workloadName": "ray.gang", "templateName": "worker-tpu"}
        assert spec["workloadRef"] == template


async def test_a_replica_has_its_pod_group_while_it_has_pods(api: FakeApi, version: str) -> None:
    api.put(RAYCLUSTERS, a_cluster(REPLICA, enableInTreeAutoscaling=True))
    async with publishing(api, version):
        await eventually(lambda: templates(api) == {"worker-tpu": 4})
        assert counts(api) == {}
        api.put(PODS, a_pod("p", HostIdentity(0, 0, "tpu-bcdfg")))
        await eventually(lambda: counts(api) == {"ray-worker-tpu-bcdfg": 4})
        api.put(PODS, a_pod("q", HostIdentity(1, 0, "tpu-hjklm")))
        await eventually(
            lambda: counts(api) == {"ray-worker-tpu-bcdfg": 4, "ray-worker-tpu-hjklm": 4}
        )
        api.delete(PODS, "p")
        await eventually(lambda: counts(api) == {"ray-worker-tpu-hjklm": 4})


async def test_a_count_follows_the_desired_count_where_it_can_be_patched(api: FakeApi) -> None:
    api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP))
    api.put(PODS, a_pod("p", HostIdentity(0, 0, "tpu-bcdfg")))
    async with publishing(api):
        await eventually(lambda: counts(api) == BY_GROUP)
        uid = api.objects(PODGROUPS)["ray-worker-tpu"]["metadata"]["uid"]
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP, workerGroupSpecs=groups_of(5)))
        await eventually(lambda: counts(api)["ray-worker-tpu"] == 20)
        await eventually(lambda: templates(api) == {"head": 0, "worker-tpu": 20})
        assert api.objects(PODGROUPS)["ray-worker-tpu"]["metadata"]["uid"] == uid
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP, workerGroupSpecs=groups_of(0)))
        await eventually(lambda: counts(api) == {"ray-head": 0})


async def test_a_gang_of_a_cluster_is_not_recreated_while_its_head_lives(api: FakeApi) -> None:
    api.put(RAYCLUSTERS, a_cluster(CLUSTER))
    api.put(PODS, a_head())
    async with publishing(api, "v1alpha2"):
        await eventually(lambda: counts(api) == {"ray-all": 9})
        api.put(RAYCLUSTERS, a_cluster(CLUSTER, workerGroupSpecs=groups_of(5)))
        seen = lists(api)
        await eventually(lambda: lists(api) > seen + 2)
        assert counts(api) == {"ray-all": 9}
        api.delete(PODS, "ray-head")
        await eventually(lambda: counts(api) == {"ray-all": 21})


@pytest.mark.parametrize("resource", [PODGROUPS, WORKLOADS])
async def test_what_others_delete_comes_back(api: FakeApi, version: str, resource: str) -> None:
    async with published(api, version):
        for name in [*api.objects(resource)]:
            api.delete(resource, name)
        await eventually(lambda: counts(api) == BY_GROUP)
        await eventually(lambda: templates(api) == {"head": 0, "worker-tpu": 8})


async def test_what_others_edit_is_put_right(api: FakeApi) -> None:
    async with published(api):
        policy = {"schedulingPolicy": {"gang": {"minCount": 1}}}
        edit(api, PODGROUPS, "ray-worker-tpu", lambda found: found["spec"].update(policy))
        await eventually(lambda: counts(api) == BY_GROUP)
        labels = {"labels": {"mine": "too"}}
        edit(api, PODGROUPS, "ray-head", lambda found: found["metadata"].update(labels))
        await eventually(lambda: len(api.objects(PODGROUPS)["ray-head"]["metadata"]["labels"]) == 3)


async def test_a_process_that_starts_again_changes_nothing(api: FakeApi, version: str) -> None:
    async with published(api, version):
        before, seen = writes(api), resyncs(api)
    async with publishing(api, version):
        await eventually(lambda: resyncs(api) > seen + 2)
    assert writes(api) == before


async def test_two_processes_agree(api: FakeApi, version: str) -> None:
    for name in ("ray", "b", "c"):
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP, name))
    async with publishing(api, version) as one, publishing(api, version) as other:
        await eventually(lambda: len(counts(api)) == 6)
        opted_out(api, "b")
        await eventually(lambda: len(counts(api)) == 4 and len(api.objects(WORKLOADS)) == 2)
        made = one.publisher.done[PODGROUPS, "created"] + other.publisher.done[PODGROUPS, "created"]
        assert made == 6


async def test_a_conflict_is_looked_into_and_done_again(api: FakeApi) -> None:
    touched: list[str] = []

    def touch(request: Request) -> int:
        """Let somebody else change a PodGroup or take a name just before we do."""
        if request.verb == "patch" and request.resource == PODGROUPS and len(touched) < 2:
            touched.append(request.name)
            change = {"annotations": {"by": str(len(touched))}}
            edit(api, PODGROUPS, request.name, lambda found: found["metadata"].update(change))
        return 0

    async with published(api) as p:
        api.before = touch
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP, workerGroupSpecs=groups_of(5)))
        await eventually(lambda: counts(api)["ray-worker-tpu"] == 20)
        assert len(touched) == 2
        assert p.publisher.queue.failures == {"conflict": 2}


async def test_an_outage_ends(api: FakeApi, version: str, caplog: pytest.LogCaptureFixture) -> None:
    async with published(api, version) as p:
        await api.down()
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP, "second"))
        opted_out(api)
        await eventually(lambda: p.publisher.queue.failures.get("refused", 0) > 3)
        await api.up()
        await eventually(lambda: counts(api) == {"second-head": 0, "second-worker-tpu": 8})
    reports = [text for text in caplog.messages if text.startswith("scheduling groups")]
    assert 1 <= len(reports) <= 2, reports  # a connection may break before others are refused


async def test_others_are_left(
    api: FakeApi, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": 77}}}
    meta = {"name": "ray-worker-tpu", "namespace": "default"}
    api.put(PODGROUPS, {"metadata": meta, "spec": spec})
    api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP))
    async with publishing(api, version) as p:
        await eventually(lambda: counts(api) == {"ray-head": 0, "ray-worker-tpu": 77})
        await eventually(lambda: p.publisher.taken_names == 1)
        await eventually(lambda: resyncs(api) > 3)
        opted_out(api)
        await eventually(lambda: counts(api) == {"ray-worker-tpu": 77})
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP))
        await eventually(lambda: p.publisher.taken_names == 1)
        api.delete(PODGROUPS, "ray-worker-tpu")
        await eventually(lambda: counts(api) == BY_GROUP)
        await eventually(lambda: p.publisher.taken_names == 0)
    assert api.count("patch", PODGROUPS) == 0
    reports = [text for text in caplog.messages if "are not its own" in text]
    assert len(reports) == 2, reports  # once for each time that the RayCluster asked for it
    assert "default/ray: ray-worker-tpu exist" in reports[0]


async def test_objects_of_a_previous_cluster_are_not_touched(api: FakeApi, version: str) -> None:
    async with published(api, version):
        anew = a_cluster(WORKER_GROUP)
        anew["metadata"]["uid"] = "another-uid"
        api.delete(RAYCLUSTERS, "ray")
        before = writes(api)
        await more_resyncs(api)
        assert writes(api) == before
        api.put(RAYCLUSTERS, anew)
        await more_resyncs(api)
        assert {verb for verb, _ in writes(api)[len(before) :]} <= {"create"}
        for name in [*api.objects(PODGROUPS)]:
            api.delete(PODGROUPS, name)
        await eventually(lambda: counts(api) == BY_GROUP)
        for found in api.objects(PODGROUPS).values():
            assert found["metadata"]["ownerReferences"][0]["uid"] == "another-uid"


async def test_opting_out_removes_all_and_ends_requests(api: FakeApi, version: str) -> None:
    async with published(api, version):
        opted_out(api)
        await eventually(lambda: not api.objects(PODGROUPS) and not api.objects(WORKLOADS))
        await nothing_but_resyncs(api)


async def test_suspension_removes_pod_groups_until_it_ends(api: FakeApi, version: str) -> None:
    async with published(api, version):
        workload = api.objects(WORKLOADS)["ray.gang"]
        api.protected = {"ray-worker-tpu"}
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP, suspend=True))
        await eventually(lambda: counts(api) == {})
        assert "ray-worker-tpu" in api.objects(PODGROUPS)
        # Its pods would keep the previous PodGroup, as they name it too
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP))
        await eventually(lambda: counts(api) == BY_GROUP)
        assert api.objects(WORKLOADS)["ray.gang"] == workload


@pytest.mark.parametrize("metadata", [
    {"labels": {names.LABEL_IGNORE: "true"}}, {"deletionTimestamp": "2024-11-21T10:00:00Z"},
    {"annotations": {"long": "x" * RAYCLUSTER_BYTES_MAX}},
], ids=["ignored", "being deleted", "too large"])  # fmt: skip
async def test_an_unmanaged_cluster_is_left(api: FakeApi, version: str, metadata: Object) -> None:
    async with published(api, version) as p:
        ignored = a_cluster("")
        ignored["metadata"] |= metadata
        api.put(RAYCLUSTERS, ignored)
        await eventually(lambda: not known_to_ask(p))
        await more_resyncs(api)
        api.delete(PODGROUPS, "ray-head")
        await more_resyncs(api)
        assert counts(api) == {"ray-worker-tpu": 8}


async def test_a_bug_that_one_cluster_brings_out_keeps_no_other_and_is_reported_once(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(desired: Desired, actual: Actual, **more: Any) -> list[Action]:  # noqa: ANN401
        if desired.uid == "uid-of-ray":
            raise ValueError("a bug")
        return decide(desired, actual, **more)

    monkeypatch.setattr(podgroup_reconciler, "decide", broken)

    api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP))
    api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP, "other"))
    async with publishing(api) as p:
        await eventually(lambda: counts(api) == {"other-head": 0, "other-worker-tpu": 8})
        await more_resyncs(api)
        await eventually(lambda: p.publisher.queue.failures.get("unexpected", 0) > 6)
        monkeypatch.undo()
        await eventually(lambda: counts(api).keys() >= BY_GROUP.keys())
    (record,) = [each for each in caplog.records if "a bug" in each.getMessage()]
    text = "scheduling groups of RayCluster default/ray: ValueError: a bug (unexpected)"
    assert record.getMessage() == text
    assert record.exc_info


@pytest.mark.parametrize(("status", "patient"), [(403, False), (422, False), (500, True)])
async def test_a_change_ends_refusals_not_outages(api: FakeApi, status: int, patient: bool) -> None:
    api.before = lambda request: status if request.verb == "create" else 0
    api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP))
    async with publishing(api, timing=replace(PACE, first_delay=600.0, longest_delay=600.0)) as p:
        await eventually(lambda: sum(p.publisher.queue.failures.values()) > 0)
        api.before = lambda _: 0
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP, workerGroupSpecs=groups_of(3)))
        if patient:
            await eventually(lambda: [c.groups["tpu"].replicas for c in p.index.clusters] == [3])
            await p.rests.more(5)
            assert counts(api) == {}
        else:
            await eventually(lambda: counts(api) == {"ray-head": 0, "ray-worker-tpu": 12})


async def test_a_refused_pod_group_does_not_stop_its_siblings(api: FakeApi, version: str) -> None:
    api.put(RAYCLUSTERS, a_cluster(REPLICA))
    api.before = lambda request: (
        403 if request.verb == "create" and request.name.endswith("bbbbb") else 0
    )
    for number, name in enumerate(("tpu-bbbbb", "tpu-ccccc", "tpu-ddddd")):
        api.put(PODS, a_pod(name, HostIdentity(number, 0, name)))
    async with publishing(api, version) as p:
        await eventually(
            lambda: counts(api) == {"ray-worker-tpu-ccccc": 4, "ray-worker-tpu-ddddd": 4}
        )
        await eventually(lambda: p.publisher.queue.failures.get("forbidden", 0) > 2)
        assert api.count("create", WORKLOADS) == 1


async def test_the_default_priority_is_no_difference(api: FakeApi, version: str) -> None:
    api.default_priority = "standard"
    async with published(api, version):
        await eventually(lambda: resyncs(api) > 2)
        assert api.count("delete", PODGROUPS) == 0
        groups = groups_of(2, priority="high")
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP, workerGroupSpecs=groups))
        await eventually(lambda: "'priorityClassName': 'high'" in str(api.objects(PODGROUPS)))


async def test_nothing_is_asked_before_sync_or_while_the_api_is_not_served(api: FakeApi) -> None:
    api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP))
    api.always("list", Fault.BROKEN)
    async with publishing(api) as p:
        await eventually(lambda: api.count("list", PODS) > 4)
        assert api.count("list", PODGROUPS) == 0
        api.always("list", None)
        await eventually(lambda: counts(api) == BY_GROUP)
        p.publisher.serve(None)
        opted_out(api)
        await eventually(lambda: not known_to_ask(p))
        for _ in range(2):  # what was under way may still be answered
            asked = len(writes(api)), api.count("list", PODGROUPS)
            await p.rests.more(3)
        assert (len(writes(api)), api.count("list", PODGROUPS)) == asked
        p.publisher.serve("v1beta1")
        await eventually(lambda: not api.objects(PODGROUPS))


async def test_only_the_namespaces_that_are_watched_are_listed(api: FakeApi) -> None:
    for namespace in ("default", "elsewhere"):
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP, f"ray-{namespace}", namespace=namespace))
    async with publishing(api, namespaces=["default"]):
        await eventually(lambda: resyncs(api) > 2)
        await eventually(
            lambda: counts(api) == {"ray-default-head": 0, "ray-default-worker-tpu": 8}
        )


async def test_between_resyncs_clusters_that_do_not_change_are_not_read_again(api: FakeApi) -> None:
    reads: list[str] = []

    def is_requested(cluster_config: RayClusterConfig) -> bool:
        reads.append(cluster_config.name)
        return SCHEDULING_GROUPS.is_requested(cluster_config)

    for name, granularity in (("ray", WORKER_GROUP), ("other", "")):
        api.put(RAYCLUSTERS, a_cluster(granularity, name))
    subject = replace(SCHEDULING_GROUPS, is_requested=is_requested)
    async with publishing(api, timing=replace(PACE, resync=3600), subject=subject) as p:
        await eventually(lambda: counts(api) == BY_GROUP)
        for name in ("ray", "other"):  # as an event of a pod that changes nothing does
            p.publisher.queue.add(("default", name))
        await p.rests.more(20)
        before = [*reads]
        await p.rests.more(20)
        assert (reads, resyncs(api)) == (before, 1)
