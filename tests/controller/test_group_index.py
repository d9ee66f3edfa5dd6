"""The controller and the admission process have the same index of worker pods."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from tests.kubeclient.fake_api import Object
from webhook.api import names
from webhook.cache.serve_stores import PodStore
from webhook.controller.group_index import GroupIndex
from webhook.diagnostics.live_objects import LivePod
from webhook.diagnostics.object_cache import ObjectCache
from webhook.groups.identity import GroupKey
from webhook.groups.identity_index import Membership
from webhook.groups.identity_labels import WorkerPod

GROUPS = ("tpu", "gpu")
INDEXES = st.sampled_from(["0", "1", "7", "01", "-1", ""])
LABELS = st.fixed_dictionaries(
    {names.LABEL_NODE_TYPE: st.just(names.NODE_TYPE_WORKER)},
    optional={
        names.LABEL_CLUSTER: st.sampled_from(["ray", "ray", "other"]),
        names.LABEL_GROUP: st.sampled_from(GROUPS),
        names.LABEL_REPLICA_INDEX: INDEXES,
        names.LABEL_HOST_INDEX: INDEXES,
        names.LABEL_REPLICA_NAME: st.sampled_from(["tpu-abcde", "tpu-bcdfg", ""]),
        names.LABEL_LEGACY_REPLICA_INDEX: st.sampled_from(["tpu-0", "tpu-x", "3"]),
    },
)
OWNER = {"kind": "RayCluster", "name": "ray", "uid": "uid-of-ray", "controller": True}
SPECS = st.sampled_from(
    [{}, {"containers": [{"name": "ray", "env": [{"name": names.TPU_WORKER_ID, "value": "2"}]}]}]
)


@st.composite
def pods(draw: st.DrawFn) -> Object:
    """Return a state of one of three pods."""
    meta: Object = {
        "namespace": "default",
        "uid": draw(st.sampled_from("abc")),
        "labels": draw(LABELS),
    }
    if draw(st.booleans()):
        meta["ownerReferences"] = [OWNER]
    if not draw(st.integers(0, 3)):
        meta["deletionTimestamp"] = "2026-11-24T10:00:00Z"
    return {"metadata": meta, "spec": draw(SPECS)}


@given(st.lists(pods(), max_size=8))
def test_both_find_the_same_replicas_whatever_pods_look_like(history: list[Object]) -> None:
    members, object_cache = Membership(), ObjectCache()
    feed, index = PodStore(members), GroupIndex(object_cache)
    for version, pod in enumerate(history, 1):
        pod["metadata"]["resourceVersion"] = str(version)
        line = json.encode(pod)
        feed.put(json.decode(line, type=WorkerPod))
        object_cache.pods.put(pod["metadata"]["uid"], json.decode(line, type=LivePod))
        for group in GROUPS:
            key = GroupKey("default", "uid-of-ray", group)
            here, there = index.members.group(key), members.group(key)
            assert here.replica_names == there.replica_names
            assert bool(here) == bool(there)
