"""The informers: pods and RayClusters from the API server, in their indexes."""

import asyncio
import sys
from types import FrameType

import pytest

from tests.harness.fake_api import PODS, RAYCLUSTERS, FakeApi, Object
from tests.harness.following import eventually, following
from tests.harness.objects import KEY, a_pod, a_raycluster, served_by_another
from tests.harness.single_process import next_identity
from webhook.api import names
from webhook.api.formats import mark
from webhook.app.informers import Connected
from webhook.controller.repair.plan import LOST
from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.required_reads import SILENCE_SECONDS
from webhook.kubeclient.access import Load
from webhook.kubeclient.client import Api
from webhook.kubeclient.errors import ConfigurationError


async def test_an_event_of_a_pod_passes_four_modules_on_its_way_to_the_index(api: FakeApi) -> None:
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append((frame.f_globals.get("__name__", ""), frame.f_code.co_name))

    async with following(api) as f:
        api.put(PODS, a_pod("pod-0", HostIdentity(0, 0, "tpu-x")))
        await eventually(lambda: f.synced and len(f.members) == 1)
        sys.setprofile(note)
        try:
            api.put(PODS, a_pod("pod-1", HostIdentity(0, 1, "tpu-x")))
            await eventually(lambda: len(f.members) == 2)
        finally:
            sys.setprofile(None)
    calls = calls[: calls.index(("webhook.groups.identity_index", "put")) + 1]
    passed = [module for module, _ in calls if module.startswith("webhook.")]
    received = len(passed) - passed[::-1].index("webhook.kubeclient.client")
    assert [*dict.fromkeys(passed[received:])] == [
        "webhook.cache.informer", "webhook.cache.store", "webhook.groups.identity_index",
        "webhook.groups.identity_labels"]  # fmt: skip


async def test_no_identity_beside_a_marked_pod_unless_the_template_marks(api: FakeApi) -> None:
    template = {names.LABEL_MARKED_FOR_DELETION: LOST}

    async with following(api) as f:
        await eventually(lambda: f.synced)
        pod = a_pod("pod", HostIdentity(0, 0, "tpu-x"))
        pod["metadata"]["uid"] = "its-uid"
        labels = pod["metadata"]["labels"]
        api.put(PODS, {**pod, "metadata": {**pod["metadata"], "labels": labels | template}})
        await eventually(lambda: f.pods.events == 1)
        assert next_identity(f.members, KEY, 2, "another").replica == 0
        labels[names.LABEL_MARKED_FOR_DELETION] = mark(LOST, "its-uid")
        api.put(PODS, pod)
        await eventually(lambda: f.pods.events == 2)
        assert next_identity(f.members, KEY, 2, "another").replica == 1


async def test_a_pod_of_a_single_host_group_carries_the_index_alone(api: FakeApi) -> None:
    async with following(api) as f:
        api.put(PODS, a_pod("pod", HostIdentity(7, 0, "")))
        await eventually(lambda: f.identities(KEY) == [HostIdentity(7, 0, "")])


async def test_invalid_identity_labels_are_logged_once_a_group(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    def mislabelled(name: str, label: str, value: str) -> Object:
        pod = a_pod(name, HostIdentity(0, 0, "tpu-x"))
        pod["metadata"]["labels"][label] = value
        return pod

    async with following(api) as f:
        api.put(PODS, mislabelled("a", names.LABEL_HOST_INDEX, "two"))
        api.put(PODS, mislabelled("b", names.LABEL_REPLICA_INDEX, "99999999999"))
        api.put(PODS, mislabelled("c", names.LABEL_REPLICA_NAME, ""))
        api.put(PODS, served_by_another(a_pod("d"), "other-3", "0"))
        api.put(PODS, served_by_another(a_pod("e"), "tpu-3", "-1"))
        api.put(PODS, served_by_another(a_pod("f"), "tpu-3", ""))
        api.put(PODS, a_pod("good", HostIdentity(1, 0, "tpu-y")))
        await eventually(lambda: len(f.members) == 1)
        assert f.state.malformed == 5
    assert len([text for text in caplog.messages if "no valid identity" in text]) == 1


async def test_a_pod_whose_labels_change_moves_to_its_new_identity_or_leaves(api: FakeApi) -> None:
    async with following(api) as f:
        api.put(PODS, a_pod("pod", HostIdentity(0, 0, "tpu-x")))
        await eventually(lambda: f.identities(KEY) == [HostIdentity(0, 0, "tpu-x")])
        api.put(PODS, a_pod("pod", HostIdentity(0, 1, "tpu-x")))
        await eventually(lambda: f.identities(KEY) == [HostIdentity(0, 1, "tpu-x")])
        api.put(PODS, a_pod("pod", HostIdentity(0, 1, "tpu-x"), group="gpu"))
        gpu = GroupKey("default", "uid-of-ray", "gpu")
        await eventually(lambda: f.identities(gpu) == [HostIdentity(0, 1, "tpu-x")])
        orphan = a_pod("pod", HostIdentity(0, 1, "tpu-x"))
        orphan["metadata"]["ownerReferences"] = None
        api.put(PODS, orphan)
        await eventually(lambda: not len(f.members))


async def test_a_live_pod_keeps_the_holder_of_its_reservation_after_any_edit(api: FakeApi) -> None:
    async with following(api) as f:
        await eventually(lambda: f.synced)
        pod = a_pod("pod", HostIdentity(0, 0, "tpu-x"))
        annotated = pod["metadata"] | {"annotations": {names.ANNOTATION_HOLDER: "it"}}
        api.put(PODS, pod | {"metadata": annotated})
        bare = {"labels": {names.LABEL_NODE_TYPE: names.NODE_TYPE_WORKER}, "annotations": {}}
        api.put(PODS, pod | {"metadata": annotated | bare})
        await eventually(lambda: f.pods.events == 2)
        assert [*f.members.holders("default")] == ["it"]
        api.delete(PODS, "pod")
        await eventually(lambda: f.members.is_gone("default", "it"))


async def test_a_raycluster_recreated_under_its_name_is_another_cluster(api: FakeApi) -> None:
    async with following(api) as f:
        api.put(RAYCLUSTERS, a_raycluster(uid="first", replicas=2))
        await eventually(lambda: len(f.clusters) == 1)
        api.put(RAYCLUSTERS, a_raycluster(uid="first", replicas=5))
        await eventually(lambda: f.clusters.get("default", "ray").groups["tpu"].desired == 5)  # type: ignore[union-attr] # it is there
        await api.down()
        api.delete(RAYCLUSTERS, "ray")
        api.put(RAYCLUSTERS, a_raycluster(uid="second"))
        api.compact()
        await api.up()
        await eventually(lambda: f.clusters.get("default", "ray").uid == "second")  # type: ignore[union-attr] # it is there
        await eventually(lambda: f.state.clusters[0].counters.relists == 1)
        assert len(f.clusters) == 1
        api.delete(RAYCLUSTERS, "ray")
        await eventually(lambda: not len(f.clusters))


async def test_only_the_namespaces_that_are_asked_for_are_followed(api: FakeApi) -> None:
    for namespace in ("blue", "green", "red"):
        api.put(PODS, a_pod("pod", HostIdentity(0, 0, "tpu-x"), namespace=namespace))
        api.put(RAYCLUSTERS, a_raycluster(namespace=namespace))
    async with following(api, namespaces=("blue", "green")) as f:
        await eventually(lambda: f.synced)
        assert len(f.members) == 2
        assert f.clusters.get("red", "ray") is None
        assert f.clusters.get("blue", "ray")


def test_a_connection_without_configuration_ends_the_run_with_advice(tmp_path: object) -> None:
    from webhook.kubeclient.access import in_cluster  # noqa: PLC0415 - only here
    from webhook.kubeclient.kubeconfig import kubeconfig  # noqa: PLC0415 - only here

    async def run(load: Load) -> None:
        await Connected(Api(load), {}).run()

    for load in (in_cluster(environ={}), kubeconfig(f"{tmp_path}/none")):
        with pytest.raises(ConfigurationError, match="name a kubeconfig"):
            asyncio.run(run(load))


async def test_what_is_known_of_a_namespace_is_as_fresh_as_its_own_watch(api: FakeApi) -> None:
    async with following(api, namespaces=("blue", "green")) as f:
        await eventually(lambda: f.synced)
        assert f.clusters.fresh("blue", "")
        blue = f.state.stores["blue"].clusters
        blue.contacted(blue.contact_at - 2 * SILENCE_SECONDS)
        assert not f.clusters.fresh("blue", "")
        assert f.clusters.fresh("green", "")
        assert not f.clusters.fresh("red", "")
