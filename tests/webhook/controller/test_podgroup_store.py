"""The store of Workloads and PodGroups after lists, and the lives of ComputeDomains."""

from typing import Any

import msgspec
import pytest

from tests.harness.fake_api import PODS, RAYCLUSTERS, FakeApi, Object
from tests.harness.following import client_of, eventually, plain
from tests.harness.objects import a_pod, a_raycluster
from tests.harness.publishing import (
    a_cluster,
    counts,
    edit,
    more_resyncs,
    opted_out,
    publishing,
    writes,
)
from tests.harness.scheduling_rules import COMPUTE_DOMAINS as PLURAL
from tests.harness.scheduling_rules import PODGROUPS, WORKLOADS
from webhook.api import names
from webhook.api.objects import RayCluster
from webhook.controller.podgroups.domains import COMPUTE_DOMAINS
from webhook.controller.podgroups.podgroup_store import PodGroupStore
from webhook.groups.annotations import REPLICA, WORKER_GROUP
from webhook.groups.group_config import read_cluster_config
from webhook.groups.identity import HostIdentity
from webhook.groups.scheduling_groups import digest
from webhook.kubeclient import wire


async def test_objects_are_found_once_by_any_query_and_on_all_their_pages(api: FakeApi) -> None:
    for name in ("ray", "other"):
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP, name))
    async with publishing(api):
        await eventually(lambda: len(counts(api)) == 4)
    edited = api.objects(PODGROUPS)["other-head"]
    api.put(PODGROUPS, {**edited, "metadata": {**edited["metadata"], "labels": {}}})
    api.page_limit = 1
    async with client_of(plain(api)) as connection:
        store = PodGroupStore(connection, "v1beta1")
        cluster_config = read_cluster_config(msgspec.convert(a_cluster(WORKER_GROUP), RayCluster))
        by_name = [
            (PODGROUPS, "ray-head"), (WORKLOADS, "ray.gang"), (WORKLOADS, "other.gang"),
            (PODGROUPS, "gone")]  # fmt: skip
        found = await store.of(cluster_config, by_name)
        assert sorted(seen.identity.name for seen in found.all) == [
            "other.gang", "ray-head", "ray-worker-tpu", "ray.gang"]  # fmt: skip
        everything = await store.all("")
        assert {place: len(actual.all) for place, actual in everything.items()} == {
            ("default", "ray"): 3,
            ("default", "other"): 2,
        }
        assert not await store.has_head(cluster_config)


@pytest.mark.parametrize("aware", [False, True])
async def test_a_dropped_constraint_is_warned_once(
    api: FakeApi, caplog: pytest.LogCaptureFixture, aware: bool
) -> None:
    api.topology_aware = aware
    for name in ("ray", "other"):
        cluster = a_cluster(REPLICA, name)
        cluster["metadata"]["annotations"][names.ANNOTATION_TOPOLOGY_KEY] = "rack"
        api.put(RAYCLUSTERS, cluster)
        api.put(PODS, a_pod(f"{name}-0", HostIdentity(0, 0, "tpu-bcdfg"), cluster=name))
    async with publishing(api):
        await eventually(lambda: len(counts(api)) == 2 and (aware or warnings(caplog)))
    for pod_group in api.objects(PODGROUPS).values():
        assert pod_group["spec"]["disruptionMode"] == {"all": {}}
        constraints = {"topology": [{"key": "rack"}]} if aware else None
        assert pod_group["spec"].get("schedulingConstraints") == constraints
    assert len(warnings(caplog)) == (0 if aware else 1)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each for each in caplog.messages if "dropped its topology constraint" in each]


async def test_managed_objects_of_any_number_and_size_do_not_end_the_list(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "LIST_BYTES_MAX", 100_000)
    meta: Object = {
        "namespace": "other",
        "labels": {names.LABEL_MANAGED_BY: names.MANAGER, names.LABEL_CLUSTER: "x"},
        "annotations": {"a": "a" * 10_000},
    }
    for number in range(20):
        api.put(PODGROUPS, {"metadata": {**meta, "name": f"large-{number}"}, "spec": {}})
    wrong = {"metadata": {**meta, "name": "wrong"}, "spec": {"priorityClassName": 1}}
    api.put(PODGROUPS, wrong)
    async with client_of(plain(api)) as connection:
        everything = await PodGroupStore(connection, "v1beta1").all("")
    assert {place: len(actual.all) for place, actual in everything.items()} == {("other", "x"): 20}


GROUP = f"ray-worker-gpu-{digest('uid-of-ray')}"
DOMAIN = "ray-worker-gpu-bcdfg"


def asking(scope: str) -> Object:
    container = {"name": "ray-worker", "resources": {"limits": {"nvidia.com/gpu": 4}}}
    template = {"spec": {"containers": [container]}}
    cluster = a_raycluster(groupName="gpu", numOfHosts=2, replicas=1, template=template)
    cluster["metadata"]["annotations"][names.ANNOTATION_COMPUTE_DOMAIN] = scope
    return cluster


def a_host(template: str, **status: Any) -> Object:  # noqa: ANN401
    """Return host 0 of a replica, with a claim of a template."""
    pod = a_pod("host-0", HostIdentity(0, 0, "gpu-bcdfg"), cluster="ray", group="gpu")
    pod["spec"]["resourceClaims"] = [
        {"name": names.CLAIM_COMPUTE_DOMAIN, "resourceClaimTemplateName": template}
    ]
    return {**pod, "status": status}


def domains(api: FakeApi) -> list[str]:
    return sorted(api.objects(PLURAL))


async def test_a_domain_is_created_once_as_nvidia_asks_with_its_owner(api: FakeApi) -> None:
    api.put(RAYCLUSTERS, asking("worker-group"))
    async with publishing(api, subject=COMPUTE_DOMAINS) as p:
        await eventually(lambda: domains(api) == [GROUP])
        await p.rests.more(20)
    assert writes(api) == [("create", PLURAL)]
    found = api.objects(PLURAL)[GROUP]
    assert found["apiVersion"] == "resource.nvidia.com/v1beta1"
    assert found["kind"] == "ComputeDomain"
    assert found["spec"] == {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": GROUP}}}
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == ("uid-of-ray", True)


async def test_a_domain_exists_from_the_first_pod_to_the_last_of_a_replica(api: FakeApi) -> None:
    api.put(RAYCLUSTERS, asking("replica"))
    async with publishing(api, subject=COMPUTE_DOMAINS) as p:
        await p.rests.more(10)
        assert domains(api) == []
        api.put(PODS, a_host(DOMAIN))
        await eventually(lambda: domains(api) == [DOMAIN])
        api.delete(PODS, "host-0")
        await eventually(lambda: domains(api) == [])
    assert writes(api) == [("create", PLURAL), ("delete", PLURAL)]


async def test_a_domain_outlives_a_pod_that_drains(api: FakeApi) -> None:
    api.put(RAYCLUSTERS, asking("replica"))
    api.put(PODS, a_host(DOMAIN, phase="Running"))
    async with publishing(api, subject=COMPUTE_DOMAINS) as p:
        await eventually(lambda: domains(api) == [DOMAIN])
        leave = {"deletionTimestamp": "2024-11-21T10:00:00Z"}
        edit(api, PODS, "host-0", lambda found: found["metadata"].update(leave))
        await eventually(lambda: not len(p.index.members))
        await more_resyncs(api, PLURAL)
        assert domains(api) == [DOMAIN]
        api.delete(PODS, "host-0")
        await eventually(lambda: domains(api) == [])


async def test_opting_out_leaves_domains_to_the_pods_that_use_them(api: FakeApi) -> None:
    api.put(RAYCLUSTERS, asking("worker-group"))
    api.put(PODS, a_host(GROUP, phase="Running"))
    async with publishing(api, subject=COMPUTE_DOMAINS):
        await eventually(lambda: domains(api) == [GROUP])
        opted_out(api)
        await more_resyncs(api, PLURAL)
        assert domains(api) == [GROUP]
        api.put(PODS, a_host(GROUP, phase="Succeeded"))
        await eventually(lambda: domains(api) == [])
