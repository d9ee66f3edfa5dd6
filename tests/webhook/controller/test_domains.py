"""ComputeDomains: when they are created, and that none is deleted while a pod uses it."""

from typing import Any

from tests.harness.fake_api import PODS, RAYCLUSTERS, FakeApi, Object
from tests.harness.following import eventually
from tests.harness.objects import a_pod, a_raycluster
from tests.harness.publishing import edit, more_resyncs, opted_out, publishing, writes
from tests.harness.scheduling_rules import COMPUTE_DOMAINS as PLURAL
from webhook.api import names
from webhook.controller.podgroups.domains import COMPUTE_DOMAINS
from webhook.groups.identity import HostIdentity
from webhook.groups.scheduling_groups import digest

GROUP = f"ray-worker-gpu-{digest('uid-of-ray')}"
REPLICA = "ray-worker-gpu-bcdfg"


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
        api.put(PODS, a_host(REPLICA))
        await eventually(lambda: domains(api) == [REPLICA])
        api.delete(PODS, "host-0")
        await eventually(lambda: domains(api) == [])
    assert writes(api) == [("create", PLURAL), ("delete", PLURAL)]


async def test_a_domain_outlives_a_pod_that_drains(api: FakeApi) -> None:
    api.put(RAYCLUSTERS, asking("replica"))
    api.put(PODS, a_host(REPLICA, phase="Running"))
    async with publishing(api, subject=COMPUTE_DOMAINS) as p:
        await eventually(lambda: domains(api) == [REPLICA])
        leave = {"deletionTimestamp": "2026-11-21T10:00:00Z"}
        edit(api, PODS, "host-0", lambda found: found["metadata"].update(leave))
        await eventually(lambda: not len(p.index.members))
        await more_resyncs(api, PLURAL)
        assert domains(api) == [REPLICA]
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
